//! A row once it was simulated.

use super::figure::{Class, Figure, Form, Printed, Series, number};
use super::judgement::{holds, judge, summary};
use super::measure::{measure, ratio};
use super::window::Outcome;

/// A value at a point.
#[derive(Clone, Debug)]
pub struct Cell {
    pub point: String,
    pub printed: Option<Printed>,
    pub ours: f64,
    pub deviation: Option<f64>,
    pub pass: Option<bool>,
}

/// A series.
#[derive(Clone, Debug)]
pub struct Values {
    pub name: String,
    pub class: Class,
    pub form: Form,
    pub cells: Vec<Cell>,
}

/// A claim.
#[derive(Clone, Debug)]
pub struct Held {
    pub text: String,
    pub class: Class,
    pub pass: Option<bool>,
}

/// See the module.
pub struct Row<'a> {
    pub figure: &'a Figure,
    pub series: Vec<Values>,
    pub claims: Vec<Held>,
    /// Of each panel.
    pub shown: Vec<&'a Outcome>,
}

/// What came of a run at a point, with each seed.
pub type Found<'f, 'a> = &'f dyn Fn(&str, &str) -> Vec<&'a Outcome>;

impl<'a> Row<'a> {
    /// Compares what was found at these points with the paper.
    pub fn new(figure: &'a Figure, full: bool, found: Found<'_, 'a>) -> Row<'a> {
        let points = || figure.point.iter().enumerate().filter(move |(_, point)| full || !point.full_only);
        let values = |series: &Series| {
            let class = series.class.unwrap_or(figure.class);
            let mean = |run: &str, point: &str| {
                let outcomes = found(run, point);
                let measured = outcomes.iter().map(|outcome| measure(series, figure.window, outcome));
                ratio(measured.sum(), outcomes.len() as f64)
            };
            let cell = |(index, point): (usize, &super::figure::Point)| {
                let of = mean(&series.of, &point.name);
                let over = |run: &String, point: &String| mean(run, point);
                let ours = match (&series.over, &series.over_point) {
                    (Some(run), _) => (ratio(of, over(run, &point.name)) - 1.0) * 100.0,
                    (None, Some(point)) => ratio(of, over(&series.of, point)),
                    (None, None) => of,
                };
                let printed = series.paper.get(index).cloned();
                let judged = judge(class, series.form(), series.improved, printed.as_ref(), ours);
                Cell { point: point.name.clone(), printed, ours, deviation: judged.deviation, pass: judged.pass }
            };
            Values { name: series.name.clone(), class, form: series.form(), cells: points().map(cell).collect() }
        };
        let series: Vec<Values> = figure.series.iter().map(values).collect();
        let named = |name: &str| -> Vec<(&str, f64)> {
            let of = series.iter().find(|values| values.name == name).into_iter().flat_map(|values| &values.cells);
            of.map(|cell| (cell.point.as_str(), cell.ours)).collect()
        };
        let claims = figure.claim.iter().map(|claim| {
            let others = claim.than.as_ref().map(|than| named(than)).unwrap_or_default();
            let form =
                figure.series.iter().find(|series| series.name == claim.series).map_or(Form::Value, Series::form);
            let pass = holds(claim, form, &named(&claim.series), &others);
            let found = summary(claim, &named(&claim.series));
            let text = match found {
                Some(found) => format!("{}: {}", claim.text, number(form, found)),
                None => claim.text.clone(),
            };
            Held { text, class: claim.class, pass }
        });
        let claims = claims.collect();
        let first = points().next().map(|(_, point)| point.name.as_str()).unwrap_or_default();
        let shown = figure.panel.iter().flat_map(|panel| found(&panel.run, first).into_iter().next()).collect();
        Row { figure, series, claims, shown }
    }

    /// What is judged: figures and claims.
    pub fn judged(&self) -> impl Iterator<Item = bool> {
        let cells = self.series.iter().flat_map(|values| &values.cells).filter_map(|cell| cell.pass);
        let claims = self.claims.iter().filter(|held| held.class != Class::Shown).filter_map(|held| held.pass);
        cells.chain(claims)
    }

    /// Whether everything that is judged passes; none if nothing is.
    pub fn pass(&self) -> Option<bool> {
        let mut judged = self.judged().peekable();
        judged.peek()?;
        Some(judged.all(|pass| pass))
    }
}
