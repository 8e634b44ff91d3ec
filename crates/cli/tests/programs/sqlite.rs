//! SQLite by its shell: rollback journal and write-ahead log, which is a mapping shared by processes, several
//! of them at once.

use std::path::Path;

use crate::comparison::{Comparison, managed};
use crate::site::TestSite;

const ROWS: &str = "with recursive n(k) as (values(1) union all select k + 1 from n where k < 2000)
    insert into t select k, printf('%.*c', k % 700, 'x') || k from n;";

#[test]
fn databases_are_the_same_in_every_journal_mode() {
    let Some(comparison) = Comparison::new(&[("sqlite3", "sqlite3")]) else { return };
    for mode in ["delete", "truncate", "persist", "memory", "wal"] {
        for synchronous in ["off", "full"] {
            let name = format!("{mode}-{synchronous}.db");
            let settings = format!(
                "pragma page_size=1024; pragma cache_size=8; pragma journal_mode={mode}; pragma synchronous={synchronous};"
            );
            comparison.same_and_kept_dirty(&format!(
                "sqlite3 {name} \"{settings} create table t(k integer primary key, v text); {ROWS} create index i on t(v); delete from t where k % 3 = 0;
                 begin; update t set v = v || 'changed' where k % 7 = 0; rollback; update t set v = upper(v) where k % 5 = 0;\"
                 sqlite3 {name} 'pragma integrity_check; select count(*), sum(length(v)) from t;'",
            ));
            comparison.same_and_kept_dirty(&format!("sqlite3 {name} 'vacuum; select count(*), sum(k) from t; pragma integrity_check;'; sqlite3 {name} .dump | sha256sum"));
        }
    }
    // A journal that was written into holds a nonce of its own; only a database as such is compared.
    comparison.same("rm -f *-journal; for f in *.db; do sqlite3 $f 'pragma integrity_check; select sum(length(v)) from t'; done; rm -f *-journal");
    comparison.flash_took_part();
}

#[test]
fn several_processes_share_a_database() {
    let Some(comparison) = Comparison::new(&[("sqlite3", "sqlite3")]) else { return };
    for mode in ["delete", "wal"] {
        // Who comes first is chance, so rows are compared, not bytes: the database is removed before the
        // directories are.
        let script = format!(
            "sqlite3 a.db 'pragma journal_mode={mode}; create table t(p, k, v, primary key(p, k));'
             for p in 1 2 3 4; do (for k in $(seq 25); do echo \".timeout 60000\"; echo \"insert into t values($p, $k, printf('%.*c', $p * $k * 9, 'y'));\"; done | sqlite3 a.db) & done; wait
             (sleep 0.1; sqlite3 -cmd '.timeout 60000' a.db 'select count(*) < 1000 from t') & sqlite3 -cmd '.timeout 60000' a.db \"update t set v = v || 'z' where k % 2 = 0\"; wait
             sqlite3 a.db 'pragma integrity_check; select p, count(*), sum(length(v)) from t group by p; pragma wal_checkpoint(truncate);'",
        );
        comparison.same_and_kept_dirty(&script);
        comparison.same_rows_on_disk("a.db", "pragma integrity_check; select * from t order by p, k");
        comparison.same("rm -f a.db*");
    }
}

impl Comparison {
    /// After a drain, sqlite3 without Headstart finds the same rows on the slow directory as in the plain one.
    fn same_rows_on_disk(&self, database: &str, query: &str) {
        let rows = |site: &TestSite, path: &Path| {
            let output = site.command("sqlite3").arg(path.join(database)).arg(query).output().unwrap();
            assert!(output.status.success(), "{}", site.say(&output));
            output.stdout
        };
        let plain = rows(&self.sites[0], &self.plain);
        assert!(plain.starts_with(b"ok\n"));
        for site in &self.sites {
            site.succeed(&["drain"]);
            assert!(rows(site, &managed(site)) == plain, "other rows on disk: {:#}", site.status());
        }
    }
}
