//! Reads the table of layers below the heading `## Layers`: a row for each, the lowest first.

use std::collections::BTreeSet;

use crate::source::Use;

/// The cell of a layer that may use every lower one.
const ALL_LOWER: &str = "all of the above";

pub struct Table {
    layers: Vec<Layer>,
}

struct Layer {
    modules: Vec<String>,
    may_use: Vec<String>,
}

impl Table {
    pub fn read(document: &str) -> Self {
        let section = document.lines().skip_while(|line| *line != "## Layers");
        let section = section.skip(1).take_while(|line| !line.starts_with("## "));
        let rows = section.filter(|line| line.starts_with('|')).skip(2);
        let mut layers: Vec<Layer> = Vec::new();
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let may_use = match cells[2] {
                ALL_LOWER => layers
                    .iter()
                    .flat_map(|layer| layer.modules.clone())
                    .collect(),
                named => quoted(named),
            };
            layers.push(Layer {
                modules: quoted(cells[0]),
                may_use,
            });
        }
        Self { layers }
    }

    /// The errors in the table, and the uses in the code that it does not allow.
    pub fn faults(&self, modules: &BTreeSet<String>, uses: &[Use]) -> Vec<String> {
        let named: BTreeSet<_> = (self.layers.iter())
            .flat_map(|layer| layer.modules.clone())
            .collect();
        let unnamed = modules.difference(&named);
        let absent = named.difference(modules);
        let unnamed = unnamed.map(|name| format!("the table does not name `{name}`"));
        let absent = absent.map(|name| format!("the table names `{name}`, which does not exist"));
        let mut faults: Vec<_> = unnamed.chain(absent).chain(self.not_lower()).collect();
        for Use { from, to, file } in uses {
            if !self.may_use(from, to) {
                faults.push(format!("{}: `{from}` may not use `{to}`", file.display()));
            }
        }
        faults
    }

    fn may_use(&self, from: &str, to: &str) -> bool {
        let layer = self
            .layers
            .iter()
            .find(|layer| layer.modules.iter().any(|name| name == from));
        layer.is_some_and(|layer| layer.may_use.iter().any(|name| name == to))
    }

    fn not_lower(&self) -> Vec<String> {
        let mut lower = BTreeSet::new();
        let mut faults = Vec::new();
        for Layer { modules, may_use } in &self.layers {
            for name in may_use.iter().filter(|name| !lower.contains(*name)) {
                let modules = modules.join("`, `");
                faults.push(format!(
                    "the table lets `{modules}` use `{name}`, which is no lower layer"
                ));
            }
            lower.extend(modules);
        }
        faults
    }
}

/// The words between backquotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}
