//! dump
mod surface;
fn main() {
    for p in std::env::args().skip(1) {
        if let Ok(surface::Surface::Lines(l)) = surface::read(p.as_ref()) {
            for x in l {
                println!("{x}");
            }
        }
    }
}
