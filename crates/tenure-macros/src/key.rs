//! Keys: expressions, strings with placeholders, parts, and lists of these.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, LitStr, Result};

/// The keys to lock.
pub(crate) enum Keys {
    /// Keys that are listed in the attribute.
    Listed(Vec<Key>),
    /// An expression that yields the keys when the function is called.
    Iterator(Expr),
}

/// One key.
pub(crate) enum Key {
    Text(LitStr),
    Value(Expr),
    Parts(Vec<Key>),
}

impl Keys {
    /// Parses the value of `key = …`.
    pub(crate) fn parse_key(expr: Expr) -> Result<Self> {
        Self::of(expr, &mut Key::of)
    }

    /// Parses the value of `name = …`. A name is taken verbatim, so it has no parts to join.
    pub(crate) fn parse_name(expr: Expr) -> Result<Self> {
        Self::of(expr, &mut |expr| match expr {
            Expr::Tuple(parts) => {
                let help =
                    "a name is one string, not several parts: write `name = \"{a}:{b}\"`, or use `key`";
                Err(Error::new_spanned(parts, help))
            }
            expr => Key::of(expr),
        })
    }

    fn of(expr: Expr, one: &mut dyn FnMut(Expr) -> Result<Key>) -> Result<Self> {
        match expr {
            Expr::Array(list) if list.elems.is_empty() => {
                Err(Error::new_spanned(list, "the list of keys is empty: add at least one key"))
            }
            Expr::Array(list) => Ok(Self::Listed(list.elems.into_iter().map(one).collect::<Result<_>>()?)),
            expr => Ok(Self::Listed(vec![one(expr)?])),
        }
    }

    /// An expression of type `Result<Vec<Name>>`.
    pub(crate) fn names(&self, prefix: Option<&Expr>) -> TokenStream {
        let prefix = match prefix {
            Some(prefix) => {
                let prefix = borrowed(prefix);
                quote!(::core::option::Option::Some(#prefix))
            }
            None => quote!(::core::option::Option::None),
        };
        match self {
            Self::Listed(keys) => quote!(::tenure::__private::lock_names(#prefix, [#(#keys),*])),
            Self::Iterator(keys) => {
                quote_spanned!(keys.span()=> ::tenure::__private::lock_names(#prefix, #keys))
            }
        }
    }
}

impl Key {
    fn of(expr: Expr) -> Result<Self> {
        match expr {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                refuse_spring(&text)?;
                Ok(Self::Text(text))
            }
            Expr::Tuple(parts) if parts.elems.is_empty() => {
                Err(Error::new_spanned(parts, "a key needs at least one part, such as `key = user.user_id`"))
            }
            Expr::Tuple(parts) => {
                Ok(Self::Parts(parts.elems.into_iter().map(Self::of).collect::<Result<_>>()?))
            }
            Expr::Array(list) => Err(Error::new_spanned(
                list,
                "a list inside a list: write several keys as `[a, b]`, and several parts of one key as `(a, b)`",
            )),
            expr => Ok(Self::Value(expr)),
        }
    }
}

impl ToTokens for Key {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::Text(text) if text.value().contains(['{', '}']) => {
                quote_spanned!(text.span()=> ::std::format!(#text))
            }
            Self::Text(text) => quote_spanned!(text.span()=> ::std::string::String::from(#text)),
            Self::Value(expr) => {
                let expr = borrowed(expr);
                quote!(::tenure::__private::key_text(#expr))
            }
            Self::Parts(parts) => {
                let parts = parts.iter().map(|part| match part {
                    Self::Value(expr) => borrowed(expr),
                    other => quote!(&#other),
                });
                quote!(::tenure::__private::join_parts(&[#(#parts),*]))
            }
        });
    }
}

/// `&expr`, with spans such that errors point at the whole expression.
pub(crate) fn borrowed(expr: &Expr) -> TokenStream {
    let binds_tighter = matches!(
        expr,
        Expr::Path(_)
            | Expr::Field(_)
            | Expr::MethodCall(_)
            | Expr::Call(_)
            | Expr::Index(_)
            | Expr::Lit(_)
            | Expr::Macro(_)
            | Expr::Paren(_)
            | Expr::Tuple(_)
            | Expr::Block(_)
            | Expr::Reference(_)
    );
    let and = quote_spanned!(expr.span()=> &);
    if binds_tighter { quote!(#and #expr) } else { quote!(#and (#expr)) }
}

/// Refuses `"#user.userId"`, Spring's syntax for an argument. As a literal it would be one lock for all users.
fn refuse_spring(text: &LitStr) -> Result<()> {
    let value = text.value();
    let spring = value.starts_with('#') || value.contains("+ #") || value.contains("+#");
    if !spring {
        return Ok(());
    }
    let path = value.strip_prefix('#').unwrap_or_default();
    let is_path = path.split('.').all(|word| syn::parse_str::<syn::Ident>(word).is_ok());
    let help = if is_path {
        format!("`{value}` is Spring syntax; here a key is a Rust expression: `key = {}`", snake_case(path))
    } else {
        format!(
            "`{value}` looks like a Spring expression; here a key is a Rust expression over the arguments, such as \
             `key = user.user_id`, or a string with placeholders, such as `key = \"{{id}}\"`"
        )
    };
    Err(Error::new(text.span(), help))
}

fn snake_case(path: &str) -> String {
    let mut snake = String::new();
    for c in path.chars() {
        if c.is_uppercase() && !snake.is_empty() && !snake.ends_with(['_', '.']) {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
