//! A Prometheus on a free port of this machine, and what it answers.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::http;
use super::started::Started;

/// Killed on drop.
pub(super) struct Prometheus {
    started: Started,
    address: String,
}

/// A series of a result, at one time.
#[derive(Debug, PartialEq)]
pub(super) struct Sample {
    /// The values of its labels.
    pub(super) labels: String,
    pub(super) value: f64,
}

impl Prometheus {
    /// Starts it with its data in `folder`. It scrapes `addresses` and evaluates `rules` every second.
    pub(super) fn start(folder: &Path, addresses: &[&str], rules: &Path) -> Result<Self, String> {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\nscrape_configs:\n  \
             - {{job_name: tenure, static_configs: [{{targets: {addresses:?}}}]}}\n",
            rules.display().to_string()
        );
        std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()));
        command.arg("--web.listen-address=127.0.0.1:0");
        let mut started = Started::start("prometheus", &command, folder)?;
        let address = started.until("its address", |log| {
            let line = log.lines().find(|line| line.contains("msg=\"Listening on\""));
            Ok(line.and_then(|line| line.split_once(" address=")).map(|(_, address)| address.to_owned()))
        })?;
        let ready =
            |_: &str| Ok(http::get(&address, "/-/ready").ok().filter(|text| text.contains("is Ready")));
        started.until("an answer", ready)?;
        Ok(Self { started, address })
    }

    /// What a query finds now.
    ///
    /// # Errors
    /// When it is no query.
    pub(super) fn query(&self, query: &str) -> Result<Vec<Sample>, String> {
        query_at(&self.address, query)
    }

    /// Asks until there is a number.
    pub(super) fn until_found(&mut self, query: &str) -> Result<Vec<Sample>, String> {
        let address = &self.address;
        self.started.until(query, |_| {
            let found = query_at(address, query)?;
            Ok(found.iter().any(|sample| sample.value.is_finite()).then_some(found))
        })
    }

    /// Waits until exactly these rules are evaluated.
    pub(super) fn until_evaluated(&mut self, names: &[&str]) -> Result<(), String> {
        let address = &self.address;
        self.started.until("rules that are evaluated", |_| {
            let answer = data(&http::get(address, "/api/v1/rules")?)?;
            let rules = answer["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
            if let Some(rule) = rules.iter().find(|rule| rule["health"] == "err") {
                return Err(format!("{}: {}", rule["name"], rule["lastError"]));
            }
            let there: Vec<_> = rules.iter().filter_map(|rule| rule["name"].as_str()).collect();
            if there != names {
                return Err(format!("the rules are {there:?}"));
            }
            Ok(rules.iter().all(|rule| rule["health"] == "ok").then_some(()))
        })
    }
}

fn query_at(address: &str, query: &str) -> Result<Vec<Sample>, String> {
    let path = format!("/api/v1/query?query={}", http::encoded(query));
    http::get(address, &path).and_then(|answer| samples(&answer)).map_err(|why| format!("{query}: {why}"))
}

fn data(answer: &str) -> Result<Value, String> {
    let mut answer: Value = serde_json::from_str(answer).map_err(|e| format!("{e}: {answer}"))?;
    match answer["status"] == "success" {
        true => Ok(answer["data"].take()),
        false => Err(answer["error"].as_str().unwrap_or("it failed").to_owned()),
    }
}

fn samples(answer: &str) -> Result<Vec<Sample>, String> {
    let data = data(answer)?;
    let result = data["result"].as_array().filter(|_| data["resultType"] == "vector");
    let sample = |series: &Value| {
        let labels = series["metric"].as_object()?.values().filter_map(Value::as_str);
        let value = series["value"][1].as_str()?.parse().ok()?;
        Some(Sample { labels: labels.collect::<Vec<_>>().join(" "), value })
    };
    let samples: Option<Vec<Sample>> = result.and_then(|all| all.iter().map(sample).collect());
    samples.ok_or(format!("not a vector: {data}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let found = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"kind":"lock","store":"redis"},"value":[1700000000.1,"0.25"]},
            {"metric":{},"value":[1700000000.1,"NaN"]}]}}"#;
        let found = samples(found).unwrap();
        assert_eq!(found[0], Sample { labels: "lock redis".into(), value: 0.25 });
        assert!(found[1].value.is_nan() && found[1].labels.is_empty());
        let wrong = r#"{"status":"error","errorType":"bad_data","error":"unclosed left parenthesis"}"#;
        assert_eq!(samples(wrong), Err("unclosed left parenthesis".into()));
        assert!(samples("404").is_err());
    }
}
