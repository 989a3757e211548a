//! The items of a file, with their positions.

use proc_macro2::Ident;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItem, Item, TraitItem, Type};

/// A function, type, constant, module or `impl` block.
#[derive(Debug)]
pub(crate) struct Place {
    /// The names of the enclosing items and its own. The name of an `impl` block is that of its
    /// type.
    path: Vec<String>,
    bytes: Range<usize>,
}

impl Place {
    /// Whether the item contains `bytes`, and its path ends with `path`, such as `Type::function`.
    pub(crate) fn has(&self, path: &str, bytes: &Range<usize>) -> bool {
        let inside = self.bytes.start <= bytes.start && bytes.end <= self.bytes.end;
        inside && self.path.ends_with(&path.split("::").map(str::to_string).collect::<Vec<_>>())
    }

    /// Whether the item's own name contains `part`.
    pub(crate) fn is_named(&self, part: &str) -> bool {
        self.path.last().is_some_and(|name| name.contains(part))
    }
}

/// The items of a file.
pub(crate) fn places(code: &str) -> Result<Vec<Place>, syn::Error> {
    let mut walk = Walk::default();
    walk.visit_file(&syn::parse_file(code)?);
    Ok(walk.places)
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    places: Vec<Place>,
}

impl Walk {
    fn enter(&mut self, name: Option<&Ident>, item: &impl Spanned, walk: impl FnOnce(&mut Self)) {
        let Some(name) = name else { return walk(self) };
        self.path.push(name.to_string());
        self.places.push(Place { path: self.path.clone(), bytes: item.span().byte_range() });
        walk(self);
        self.path.pop();
    }
}

impl<'a> Visit<'a> for Walk {
    fn visit_item(&mut self, item: &'a Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Impl(item) => name_of(&item.self_ty),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Mod(item) => Some(&item.ident),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            _ => None,
        };
        self.enter(name, item, |walk| visit::visit_item(walk, item));
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let name = match item {
            ImplItem::Const(item) => Some(&item.ident),
            ImplItem::Fn(item) => Some(&item.sig.ident),
            _ => None,
        };
        self.enter(name, item, |walk| visit::visit_impl_item(walk, item));
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        let name = match item {
            TraitItem::Const(item) => Some(&item.ident),
            TraitItem::Fn(item) => Some(&item.sig.ident),
            _ => None,
        };
        self.enter(name, item, |walk| visit::visit_trait_item(walk, item));
    }
}

fn name_of(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(ty) => ty.path.segments.last().map(|last| &last.ident),
        Type::Reference(ty) => name_of(&ty.elem),
        _ => None,
    }
}
