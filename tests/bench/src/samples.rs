//! What a run measured: for each workload, measure and side one value a round.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Result;
use crate::stats::Waits;

/// By workload, measure and side.
type Values = BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<f64>>>>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples {
    values: Values,
    /// The waits of all rounds, by workload and side.
    waits: BTreeMap<String, BTreeMap<String, Waits>>,
}

impl Samples {
    /// Adds the value of the next round.
    pub(crate) fn push(&mut self, workload: &str, measure: &str, side: &str, value: f64) {
        let measures = self.values.entry(workload.to_owned()).or_default();
        let sides = measures.entry(measure.to_owned()).or_default();
        sides.entry(side.to_owned()).or_default().push(value);
    }

    pub(crate) fn push_waits(&mut self, workload: &str, side: &str, waits: &Waits) {
        let sides = self.waits.entry(workload.to_owned()).or_default();
        sides.entry(side.to_owned()).or_default().add(waits);
    }

    pub(crate) fn get(&self, workload: &str, measure: &str, side: &str) -> Option<&[f64]> {
        self.values.get(workload)?.get(measure)?.get(side).map(Vec::as_slice)
    }

    pub(crate) fn workloads(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The waits of each side.
    pub(crate) fn waits(&self, workload: &str) -> impl Iterator<Item = (&str, &Waits)> {
        self.waits.get(workload).into_iter().flatten().map(|(side, waits)| (side.as_str(), waits))
    }

    /// All measures of a workload, each with its sides.
    pub(crate) fn of(&self, workload: &str) -> Option<&BTreeMap<String, BTreeMap<String, Vec<f64>>>> {
        self.values.get(workload)
    }

    pub(crate) fn json(&self) -> Value {
        let text = |waits: &Waits| Value::String(waits.to_string());
        let sides = |sides: &BTreeMap<String, Waits>| -> Value {
            sides.iter().map(|(side, waits)| (side.clone(), text(waits))).collect()
        };
        let waits: Value = self.waits.iter().map(|(name, all)| (name.clone(), sides(all))).collect();
        json!({ "values": self.values, "waits": waits })
    }

    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        let values = serde_json::from_value(value["values"].clone())?;
        let mut samples = Self { values, waits: BTreeMap::new() };
        for (workload, sides) in value["waits"].as_object().into_iter().flatten() {
            for (side, waits) in sides.as_object().into_iter().flatten() {
                let waits = waits.as_str().unwrap_or_default().parse()?;
                samples.push_waits(workload, side, &waits);
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_as_written() {
        let mut samples = Samples::default();
        samples.push("W1", "per second", "a", 1.5);
        samples.push("W1", "per second", "a", 2.0);
        samples.push_waits("W1", "a", &"7:3".parse().unwrap());
        let text = samples.json().to_string();
        assert_eq!(Samples::from_json(&serde_json::from_str(&text).unwrap()).unwrap(), samples);
        assert_eq!(samples.get("W1", "per second", "a"), Some(&[1.5, 2.0][..]));
    }
}
