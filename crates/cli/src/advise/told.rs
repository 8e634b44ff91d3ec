//! What is told of a run.

use std::path::Path;

use headstart_insight::advice::Advice;

use super::commands::Commands;

/// What is told of a run.
pub struct Told<'a> {
    pub trace: &'a Path,
    pub slow: &'a Path,
    pub advice: &'a Advice,
    pub commands: Commands,
}

/// What predictions do not know of.
pub fn unknowns(advice: &Advice) -> Vec<String> {
    let mut said = vec![
        "The next run is taken to ask for much the same as this one.".to_string(),
        "Time between requests stays as it is. Waits at barriers are in it, and would shrink as well: programs of many barriers gain more \
         than this says."
            .to_string(),
        "Opening and closing files, and metadata, are not in it; nor is write-back after the program's end.".to_string(),
        "s4d is a run that asks for the same bytes again, 's4d, first run' one that finds nothing on flash; a run for other bytes is \
         between them. The advice goes by the first run. carl is predicted for requests that the choice of regions had not seen."
            .to_string(),
        "s4d: a page that was asked for is on flash before it is asked for again; beside programs that never pause the agent may be \
         later. Pages are sampled; how long write-back takes is estimated from how written pages lie."
            .to_string(),
        "auto is not predicted: it moves regions while the program runs. With a plan placed it is carl,s4d; without one expect something \
         between 's4d, first run' and carl,s4d."
            .to_string(),
        "Volumes beneath the disk servers (liu, itransformer) are not predicted: a trace of the client does not tell what reaches a server's \
         disk. 'headstart-lab sim TRACE --server-policy liu,itransformer' simulates them."
            .to_string(),
    ];
    if advice.run.measured_s.is_none() {
        said.insert(
            0,
            "The trace has no times: all run times follow from the site's cost model alone, without time to think."
                .to_string(),
        );
    }
    if advice.run.groups < advice.run.ranks {
        said.push(format!(
            "{} ranks were taken in {} groups of the same behaviour; single slow ranks are not seen.",
            advice.run.ranks, advice.run.groups
        ));
    }
    if advice.run.rounded_requests > 0 {
        said.push(format!(
            "{} requests over several regions count as of the one that has most of them; larger regions (--region) avoid that.",
            advice.run.rounded_requests
        ));
    }
    said
}
