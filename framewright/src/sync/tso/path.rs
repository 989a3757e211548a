//! The sequence of choices of one execution, and the choice of the next sequence.
//!
//! The tree of all sequences is walked depth first. Two measures keep it small:
//!
//! * *sleep sets*: after a step has been explored at a node, the subtrees of the node's other steps
//!   do not take it again until they have taken a step that interferes with it. This prunes only
//!   repetitions: every distinct outcome is still reached;
//! * a *preemption bound*, if the whole tree is too large: the maximum number of switches to
//!   another thread although the last one could have continued.

use std::vec::Vec;

/// A thread of the model, numbered in order of creation; the explored closure itself is 0.
pub type ThreadId = usize;

/// A modelled memory location, numbered in order of first use.
pub(super) type Location = u32;

/// The action of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// The thread executes the operation it is waiting to execute.
    Run,
    /// The thread's oldest buffered store reaches memory.
    Flush,
}

/// A possible next step, and the locations that it accesses.
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
    /// Whether the order of the two steps could matter.
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
    /// The steps that are explored at this node, in order.
    steps: Vec<Step>,
    chosen: usize,
    /// The steps that were explored at another node already (the sleep set).
    sleeping: Vec<Step>,
    /// Preemptions before this node.
    preemptions: u32,
    /// The thread that is preempted if another thread is chosen.
    running: Option<ThreadId>,
}

impl Node {
    fn taken(&self) -> &Step {
        &self.steps[self.chosen]
    }

    /// Preemptions up to this node, the one by the choice taken here included.
    fn preemptions(&self) -> u32 {
        let step = self.taken();
        let preempts = step.act == Act::Run && self.running.is_some_and(|r| r != step.thread);
        self.preemptions + u32::from(preempts)
    }
}

/// The result of a choice.
pub(super) enum Choice {
    /// This step is next.
    Take(Step),
    /// No step: everything from here on has been explored before.
    Repetition,
    /// The step that was possible here the last time is not possible now.
    Strayed,
}

/// The choices of one execution, from the root of the tree.
#[derive(Default)]
pub(super) struct Path {
    nodes: Vec<Node>,
    depth: usize,
    bound: Option<u32>,
    /// Choices to repeat instead of exploring.
    script: Option<Vec<u16>>,
    /// State of a random generator: choices are drawn, not enumerated.
    random: Option<u64>,
    /// Whether choices are drawn, or were drawn when the script was written. If so, there are no
    /// sleep sets.
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

    /// A path with all choices drawn at random.
    pub(super) fn random(seed: u64) -> Self {
        Self { random: Some(seed | 1), draws: true, ..Self::default() }
    }

    /// Draws one of the steps. Prefers to delay buffered stores and to let a thread run for some
    /// steps, because the outcomes that are rare on real machines need such delays.
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

    /// Chooses one of `enabled`, which is not empty. `running` is the thread that ran last.
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

    /// The sleep set of a new node: the steps that slept or were explored at the last node, except
    /// those that the step taken there interferes with. If preemptions are counted, two orders of
    /// the steps of two threads are not equivalent, so a step stays asleep only if it or the step
    /// taken is a flush, which is never a preemption.
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

    /// Advances to the next sequence; `false` if there is none.
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
