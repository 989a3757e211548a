//! The sequence of choices of one execution, and which sequence comes next.
//!
//! The tree of all sequences is walked depth first. Two measures keep it small:
//!
//! * *sleep sets*: once a step has been explored at some point, its siblings' subtrees need not
//!   begin with it again until a step that interferes with it has been taken. This prunes
//!   repetitions only: every distinct outcome is still reached;
//! * a *preemption bound*, where the whole tree is too large: how often a thread may be
//!   interrupted that could have gone on.

use std::vec::Vec;

use super::machine::{Location, ThreadId};

/// What a step does, apart from whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// The thread executes the operation it is waiting to execute.
    Run,
    /// The thread's oldest buffered store reaches memory.
    Flush,
}

/// One thing that can happen next, and what it touches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) act: Act,
    pub(super) thread: ThreadId,
    pub(super) reads: Option<Location>,
    pub(super) writes: Vec<Location>,
    /// Empties buffers, so no flush of any thread commutes with it.
    pub(super) barrier: bool,
}

impl Step {
    /// Whether the order of the two could matter.
    fn interferes(&self, other: &Step) -> bool {
        let own = self.thread == other.thread
            && (self.act == other.act || !self.writes.is_empty() && !other.writes.is_empty());
        let one_way = |a: &Step, b: &Step| {
            a.barrier || a.writes.iter().any(|w| b.reads == Some(*w) || b.writes.contains(w))
        };
        own || one_way(self, other) || one_way(other, self)
    }

    fn is(&self, act: Act, thread: ThreadId) -> bool {
        self.act == act && self.thread == thread
    }
}

struct Node {
    /// What is explored here, in order.
    steps: Vec<Step>,
    chosen: usize,
    /// What was explored elsewhere already.
    sleeping: Vec<Step>,
    /// Preemptions before this node.
    preemptions: u32,
    /// Whom a choice of another thread preempts.
    running: Option<ThreadId>,
}

impl Node {
    fn taken(&self) -> &Step {
        &self.steps[self.chosen]
    }

    /// Preemptions up to and with the choice taken here.
    fn preemptions(&self) -> u32 {
        let step = self.taken();
        let preempts = step.act == Act::Run && self.running.is_some_and(|r| r != step.thread);
        self.preemptions + u32::from(preempts)
    }
}

/// What an execution does next.
pub(super) enum Choice {
    /// This.
    Take(Step),
    /// Nothing: everything from here on has been explored before.
    Repetition,
    /// The step that was possible here last time no longer is.
    Strayed,
}

/// See the module.
#[derive(Default)]
pub(super) struct Path {
    nodes: Vec<Node>,
    depth: usize,
    bound: Option<u32>,
    /// Choices to repeat instead of exploring.
    script: Option<Vec<u16>>,
    /// State of a random generator: choices are drawn, not enumerated.
    random: Option<u64>,
    /// Whether they are, or were when the script was written: then nothing sleeps.
    draws: bool,
}

impl Path {
    pub(super) fn new(bound: Option<u32>) -> Self {
        Self { bound, ..Self::default() }
    }

    /// A path that repeats `choices`, then takes first choices.
    pub(super) fn repeat(bound: Option<u32>, draws: bool, choices: &[u16]) -> Self {
        Self { bound, draws, script: Some(choices.to_vec()), ..Self::default() }
    }

    /// A path of which every execution is drawn at random.
    pub(super) fn random(seed: u64) -> Self {
        Self { random: Some(seed | 1), draws: true, ..Self::default() }
    }

    /// Draws one of the steps. Buffered stores are made to wait, and threads to run on for a
    /// while: that is where what is rare on real machines happens.
    fn draw_step(&mut self, enabled: &[Step], running: Option<ThreadId>) -> Option<usize> {
        let runs = enabled.iter().filter(|step| step.act == Act::Run).count();
        let goes_on = running.and_then(|r| enabled.iter().position(|e| e.is(Act::Run, r)));
        match (self.draw(8)?, goes_on) {
            (0..4, Some(step)) => Some(step),
            // Runs come before flushes.
            (0..7, _) if runs > 0 => self.draw(runs),
            _ => self.draw(enabled.len()),
        }
    }

    /// A number below `bound` (xorshift).
    fn draw(&mut self, bound: usize) -> Option<usize> {
        let state = self.random.as_mut()?;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some((*state >> 33) as usize % bound.max(1))
    }

    /// Chooses among `enabled` (never empty); `running` had the last turn.
    pub(super) fn choose(&mut self, mut enabled: Vec<Step>, running: Option<ThreadId>) -> Choice {
        if let Some(node) = self.nodes.get(self.depth) {
            let step = node.taken();
            self.depth += 1;
            let possible = node.steps.iter().all(|s| enabled.contains(s));
            return if possible { Choice::Take(step.clone()) } else { Choice::Strayed };
        }
        let running = running.filter(|r| enabled.iter().any(|e| e.is(Act::Run, *r)));
        let preemptions = self.nodes.last().map_or(0, Node::preemptions);
        if self.bound.is_some_and(|bound| preemptions >= bound) {
            enabled.retain(|e| e.act == Act::Flush || running.is_none_or(|r| r == e.thread));
        }
        let sleeping = self.inherit_sleep();
        enabled.retain(|e| !sleeping.iter().any(|s| s.is(e.act, e.thread)));
        let scripted = self.script.as_ref().and_then(|s| s.get(self.depth)).copied();
        let drawn = self.draw_step(&enabled, running);
        let chosen = drawn.unwrap_or(usize::from(scripted.unwrap_or(0)));
        let Some(step) = enabled.get(chosen).cloned() else {
            return Choice::Repetition;
        };
        self.nodes.push(Node { steps: enabled, chosen, sleeping, preemptions, running });
        self.depth += 1;
        Choice::Take(step)
    }

    /// What sleeps at a new node: what slept or was explored at the last one, unless the step
    /// taken there interferes with it. Where preemptions count, two threads' steps in another
    /// order are another thing; a flush is never a preemption.
    fn inherit_sleep(&self) -> Vec<Step> {
        let Some(last) = self.nodes.last().filter(|_| !self.draws) else { return Vec::new() };
        let taken = last.taken();
        let earlier = last.sleeping.iter().chain(&last.steps[..last.chosen]);
        let stays = |step: &&Step| {
            let free = step.act == Act::Flush || taken.act == Act::Flush;
            (free || self.bound.is_none()) && !step.interferes(taken)
        };
        earlier.filter(stays).cloned().collect()
    }

    /// Goes on to the next sequence; `false` when there is none.
    pub(super) fn advance(&mut self) -> bool {
        self.depth = 0;
        if self.random.is_some() {
            self.nodes.clear();
            return true;
        }
        if self.script.is_some() {
            return false;
        }
        while let Some(node) = self.nodes.last_mut() {
            node.chosen += 1;
            if node.chosen < node.steps.len() {
                return true;
            }
            self.nodes.pop();
        }
        false
    }

    /// The choices taken, for [`Path::repeat`].
    pub(super) fn choices(&self) -> Vec<u16> {
        self.nodes[..self.depth].iter().map(|n| n.chosen as u16).collect()
    }
}
