//! Changes of a scenario by path: `"job.0.workload.transfer" = "8KiB"`.

use toml::{Table, Value};

/// Sets what a path names; tables on the way are made, and an array grows by one.
pub fn set(table: &mut Table, path: &str, value: &Value) -> Result<(), String> {
    let (first, rest) = split(path);
    match rest {
        None => {
            table.insert(first.into(), value.clone());
            Ok(())
        }
        Some(rest) => {
            let next = table.entry(first).or_insert_with(|| empty(rest));
            set_within(next, rest, value).map_err(|problem| format!("{path}: {problem}"))
        }
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)))
}

fn empty(rest: &str) -> Value {
    let is_index = split(rest).0.parse::<usize>().is_ok();
    if is_index { Value::Array(Vec::new()) } else { Value::Table(Table::new()) }
}

fn set_within(target: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    match target {
        Value::Table(table) => set(table, path, value),
        Value::Array(array) => {
            let (index, rest) = split(path);
            let index: usize = index.parse().map_err(|_| format!("'{index}' is no place in an array"))?;
            if index > array.len() {
                return Err(format!("there are {} items, and none has number {index}", array.len()));
            }
            if index == array.len() {
                array.push(rest.map_or_else(|| value.clone(), empty));
            }
            match rest {
                None => array[index] = value.clone(),
                Some(rest) => set_within(&mut array[index], rest, value)?,
            }
            Ok(())
        }
        _ => Err("it is neither a table nor an array".into()),
    }
}

/// Sets all of them.
pub fn set_all(table: &mut Table, changes: &Table) -> Result<(), String> {
    changes.iter().try_for_each(|(path, value)| set(table, path, value))
}

/// Lays a table over another: tables are merged, everything else is replaced.
pub fn merge(table: &mut Table, over: &Table) {
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(Value::Table(inner)), Value::Table(over)) => merge(inner, over),
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_reaches_into_tables_and_arrays() {
        let mut scenario = table("[[job]]\nname = 'a'\n[job.workload]\ntransfer = 1\n");
        set_all(&mut scenario, &table("'job.0.workload.transfer' = 2\n'job.1' = { name = 'b' }\n'disk.servers' = 3\n"))
            .unwrap();
        let expected = "[disk]\nservers = 3\n[[job]]\nname = 'a'\n[job.workload]\ntransfer = 2\n[[job]]\nname = 'b'\n";
        assert_eq!(scenario, table(expected));
        assert!(set(&mut scenario, "job.7.name", &Value::Integer(1)).unwrap_err().contains("number 7"));
        assert!(set(&mut scenario, "disk.servers.x", &Value::Integer(1)).unwrap_err().contains("neither"));
    }

    #[test]
    fn tables_are_laid_over_each_other_key_by_key() {
        let mut machines = table("seed = 1\n[disk]\nservers = 8\nprofile = 'a'\n");
        merge(&mut machines, &table("[disk]\nservers = 4\n[flash]\nservers = 2\n"));
        assert_eq!(machines, table("seed = 1\n[disk]\nservers = 4\nprofile = 'a'\n[flash]\nservers = 2\n"));
    }
}
