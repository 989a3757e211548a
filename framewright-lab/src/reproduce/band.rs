//! What a figure hangs on: parameters of the machine turned up and down, one at a time.

use framewright_sim::machine::Spec;

use super::ReproduceError;
use crate::report::Band;

/// How far parameters are turned down and up: guesses may be wrong by a quarter.
pub const FACTORS: [f64; 2] = [0.75, 1.25];

/// How far `figure` moves while each of `parameters` of `spec` is turned down and up. None if there
/// are no parameters. The band includes `as_is`, the figure of `spec` itself.
///
/// # Errors
///
/// That of `figure`, or that there is no such parameter.
pub fn band(
    spec: &Spec,
    parameters: &[&str],
    as_is: f64,
    mut figure: impl FnMut(&Spec) -> Result<f64, ReproduceError>,
) -> Result<Option<Band>, ReproduceError> {
    let mut band: Option<Band> = None;
    let mut furthest = 0.0;
    for &parameter in parameters {
        for factor in FACTORS {
            let value = figure(&spec.scaled(parameter, factor)?)?;
            let band = band.get_or_insert_with(|| Band {
                least: as_is,
                greatest: as_is,
                by: parameter.to_owned(),
            });
            band.least = band.least.min(value);
            band.greatest = band.greatest.max(value);
            if (value - as_is).abs() > furthest {
                furthest = (value - as_is).abs();
                parameter.clone_into(&mut band.by);
            }
        }
    }
    Ok(band)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_spans_what_parameters_do_and_names_the_strongest() {
        let spec = Spec::preset("skx-2s-112").unwrap();
        let figure = |spec: &Spec| {
            let latency = &spec.costs().latency;
            Ok(latency.modified_remote as f64 - latency.dram_local as f64)
        };
        let keys = ["latency.dram_local", "latency.modified_remote", "latency.l1"];
        let as_is = figure(&spec).unwrap();
        let found = band(&spec, &keys, as_is, figure).unwrap().unwrap();
        assert_eq!((found.least, found.greatest), (-5.0, 145.0));
        assert_eq!(found.by, "latency.modified_remote");
        assert_eq!(band(&spec, &[], as_is, figure).unwrap(), None);
        let error = band(&spec, &["latency.l9"], as_is, figure).unwrap_err().to_string();
        assert!(error.contains("'latency.l1'"), "{error}");
    }
}
