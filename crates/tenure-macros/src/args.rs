//! The arguments of `#[distributed_lock(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, Result, Token, parenthesized};

use crate::duration::parse_duration;
use crate::key::Keys;

pub(crate) struct Args {
    pub(crate) keys: Keys,
    pub(crate) prefix: Option<Expr>,
    /// `.kind(…)`, `.wait(…)` and the like, to be appended to a call.
    pub(crate) options: TokenStream,
    pub(crate) condition: Option<Expr>,
    pub(crate) client: Option<Expr>,
    pub(crate) on_busy: OnBusy,
    pub(crate) on_fail: Option<OnFail>,
    pub(crate) on_lost: Option<(OnLost, Span)>,
}

pub(crate) enum OnBusy {
    Error,
    Skip(Expr),
    Call(Expr),
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OnFail {
    Error,
    Panic,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OnLost {
    Cancel,
    Finish,
}

const ARGUMENTS: &[&str] = &[
    "key",
    "keys",
    "prefix",
    "name",
    "wait",
    "lease",
    "max_hold",
    "at_least",
    "kind",
    "condition",
    "client",
    "on_busy",
    "on_fail",
    "on_lost",
];

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut key, mut keys, mut name) = (None, None, None);
        let (mut prefix, mut condition, mut client) = (None, None, None);
        let (mut on_busy, mut on_fail, mut on_lost) = (OnBusy::Error, None, None);
        let mut options = TokenStream::new();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let word = argument_name(input, &seen)?;
            match word.to_string().as_str() {
                "key" => key = Some(Keys::parse_key(input.parse()?)?),
                "keys" => keys = Some(Keys::Iterator(input.parse()?)),
                "name" => name = Some(Keys::parse_name(input.parse()?)?),
                "prefix" => prefix = Some(input.parse()?),
                "condition" => condition = Some(input.parse()?),
                "client" => client = Some(input.parse()?),
                "kind" => options.extend(kind(input)?),
                "on_busy" => on_busy = on_busy_choice(input)?,
                "on_fail" => {
                    on_fail = Some(
                        choice(input, "on_fail", &[("error", OnFail::Error), ("panic", OnFail::Panic)])?.0,
                    );
                }
                "on_lost" => {
                    let choices = [("cancel", OnLost::Cancel), ("finish", OnLost::Finish)];
                    on_lost = Some(choice(input, "on_lost", &choices)?);
                }
                _ => options.extend(duration_option(&word, input)?),
            }
            seen.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let at = |word: &str| seen.iter().find(|w| *w == word).map_or_else(Span::call_site, Ident::span);
        let keys = match (key, keys, name) {
            (Some(keys), None, None) | (None, Some(keys), None) => keys,
            (None, None, Some(_)) if prefix.is_some() => {
                let help = "`name` is the complete name and takes no prefix: use `key` with `prefix`";
                return Err(Error::new(at("prefix"), help));
            }
            (None, None, Some(name)) => name,
            (None, None, None) => {
                let help = "no key: add `key = user.user_id`, or `name = \"…\"` for a complete name";
                return Err(Error::new(Span::call_site(), help));
            }
            _ => {
                let last = seen.iter().rev().find(|w| *w == "key" || *w == "keys" || *w == "name");
                let help =
                    "use only one of `key`, `keys` and `name`: several keys are a list, `key = [from, to]`";
                return Err(Error::new(last.map_or_else(Span::call_site, Ident::span), help));
            }
        };
        Ok(Self { keys, prefix, options, condition, client, on_busy, on_fail, on_lost })
    }
}

/// Parses the name of an argument, which must be known and not be used twice.
fn argument_name(input: ParseStream<'_>, seen: &[Ident]) -> Result<Ident> {
    let Ok(word) = input.call(Ident::parse_any) else {
        return Err(input.error("expected an argument with a name, such as `key = user.user_id`"));
    };
    if !ARGUMENTS.iter().any(|known| word == known) {
        return Err(Error::new(
            word.span(),
            format!(
                "unknown argument `{word}`{} (known: {})",
                did_you_mean(&word.to_string()),
                ARGUMENTS.join(", ")
            ),
        ));
    }
    if seen.contains(&word) {
        return Err(Error::new(word.span(), format!("`{word}` is given twice")));
    }
    if input.parse::<Token![=]>().is_err() {
        return Err(Error::new(word.span(), format!("`{word}` needs a value: `{word} = …`")));
    }
    Ok(word)
}

/// A suggestion for an unknown argument: a known one with the same letters, or the one that means the same elsewhere.
fn did_you_mean(word: &str) -> String {
    let letters = |w: &str| {
        let mut letters: Vec<char> = w.to_lowercase().chars().filter(char::is_ascii_alphabetic).collect();
        letters.sort_unstable();
        letters
    };
    let near = match word {
        "timeout" | "wait_time" | "waitTime" => Some("wait"),
        "ttl" | "lease_time" | "leaseTime" => Some("lease"),
        word => ARGUMENTS.iter().copied().find(|known| letters(known) == letters(word)),
    };
    near.map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

/// `wait`, `lease`, `max_hold` or `at_least`: a string that is parsed at compile time, or an expression.
fn duration_option(word: &Ident, input: ParseStream<'_>) -> Result<TokenStream> {
    let expr: Expr = input.parse()?;
    let duration = match &expr {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let duration = parse_duration(&text.value()).map_err(|help| Error::new(text.span(), help))?;
            let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
            quote!(::core::time::Duration::new(#seconds, #nanos))
        }
        Expr::Lit(ExprLit { lit: Lit::Int(_) | Lit::Float(_), .. }) => {
            let help = format!("a number has no unit: write `{word} = \"5s\"` or a `Duration`");
            return Err(Error::new(expr.span(), help));
        }
        expr => quote!(#expr),
    };
    Ok(quote_spanned!(expr.span()=> .#word(#duration)))
}

fn kind(input: ParseStream<'_>) -> Result<TokenStream> {
    let help = "`kind` is one of lock, fair, read, write, permits(n, limit)";
    let word = input.call(Ident::parse_any).map_err(|e| Error::new(e.span(), help))?;
    let kind = match word.to_string().as_str() {
        "lock" => quote!(Lock),
        "fair" => quote!(FairLock),
        "read" => quote!(Read { under_write: ::core::option::Option::None }),
        "write" => quote!(Write),
        "permits" => {
            let (n, limit) = permits(&word, input)?;
            quote!(Permit { n: #n, limit: #limit })
        }
        _ => return Err(Error::new(word.span(), help)),
    };
    Ok(quote!(.kind(::tenure::backend::Kind::#kind)))
}

fn permits(word: &Ident, input: ParseStream<'_>) -> Result<(Expr, Expr)> {
    let help = "`permits` takes two numbers, how many and the limit: `permits(1, 10)`";
    let wrong = || Error::new(word.span(), help);
    if !input.peek(syn::token::Paren) {
        return Err(wrong());
    }
    let inner;
    parenthesized!(inner in input);
    let both = inner.parse_terminated(Expr::parse, Token![,])?;
    let mut both = both.into_iter();
    let (Some(n), Some(limit), None) = (both.next(), both.next(), both.next()) else { return Err(wrong()) };
    let number = |expr: &Expr| match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => LitInt::base10_parse::<u32>(int).ok(),
        _ => None,
    };
    match (number(&n), number(&limit)) {
        (Some(0), _) => Err(Error::new(n.span(), "the number of permits must be at least 1")),
        (Some(n), Some(limit)) if n > limit => {
            Err(Error::new(word.span(), format!("{n} permits exceed the limit of {limit}")))
        }
        _ => Ok((n, limit)),
    }
}

fn on_busy_choice(input: ParseStream<'_>) -> Result<OnBusy> {
    let help = "`on_busy` is one of error, skip(value), call(function)";
    let word = input.call(Ident::parse_any).map_err(|e| Error::new(e.span(), help))?;
    let value = |example: &str| {
        if !input.peek(syn::token::Paren) {
            return Err(Error::new(word.span(), format!("`{word}` needs an argument: `{example}`")));
        }
        let inner;
        parenthesized!(inner in input);
        inner.parse::<Expr>()
    };
    match word.to_string().as_str() {
        "error" => Ok(OnBusy::Error),
        "skip" => Ok(OnBusy::Skip(value("skip(Ok(None))")?)),
        "call" => Ok(OnBusy::Call(value("call(when_busy)")?)),
        _ => Err(Error::new(word.span(), help)),
    }
}

fn choice<T: Copy>(input: ParseStream<'_>, of: &str, choices: &[(&str, T)]) -> Result<(T, Span)> {
    let help =
        format!("`{of}` is one of {}", choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "));
    let word = input.call(Ident::parse_any).map_err(|e| Error::new(e.span(), &help))?;
    let found = choices.iter().find(|(choice, _)| word == choice);
    found.map(|(_, choice)| (*choice, word.span())).ok_or_else(|| Error::new(word.span(), help))
}
