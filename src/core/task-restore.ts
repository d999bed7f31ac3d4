import { type Attempt, isAlive } from './attempt.ts'
import { limits } from './limits.ts'
import type { AttemptSummary } from './messages.ts'
import type { Agent, Home, Task } from './task-record.ts'
import { type AgentStep, newTask, saved, withTask } from './task-step.ts'

/**
 * Takes an attempt in that a node has and this hub's store knows nothing of: it was put back to a time before the attempt
 * (rule 6). The agent or its turn may be unknown as well; what the node did not say of them stays absent.
 *
 * Where the turn went another way since the store was put back (it ended, or another attempt has it), the attempt is left
 * behind: it is told to stop, and its result comes as a late one.
 *
 * @param found - the agent as the hub knows it, and the number that a new one takes
 * @returns undefined where the attempt is known
 */
export function adoptAttempt(
  found: { readonly agent: Agent | undefined; readonly no: number },
  summary: AttemptSummary,
  home: Home,
): AgentStep | undefined {
  const { ref } = summary
  const agent = found.agent ?? adoptedAgent(summary, { no: found.no, home })
  const known = agent.tasks.find((task) => task.taskId === ref.taskId)
  if (known?.attempts.some((attempt) => attempt.attemptId === ref.attemptId)) return undefined
  const task = withDeclined(known ?? adoptedTask(summary, agent.tasks.length + 1), ref.epoch)
  const isLeftBehind = task.end !== undefined || task.attempts.some(isAlive)
  const attempt: Attempt = {
    attemptId: ref.attemptId,
    number: 1 + task.attempts.filter((earlier) => earlier.phase !== 'declined').length,
    epoch: ref.epoch,
    ...home,
    // What its node has not said yet, it says next; of one that was left behind it only matters that it may run.
    phase: isLeftBehind ? 'running' : summary.state === 'claimed' ? 'offered' : 'claimed',
    isSuperseded: isLeftBehind,
    hasLateResult: false,
    isFound: true,
    doubts: ['hub'],
  }
  const next: Task = {
    ...task,
    stage: isLeftBehind ? task.stage : 'execute',
    nextEpoch: Math.max(task.nextEpoch, ref.epoch + 1),
    // The last one is the one that the turn stands or falls with.
    attempts: isLeftBehind ? [attempt, ...task.attempts] : [...task.attempts, attempt],
  }
  const taken: Agent = isLeftBehind ? agent : { ...agent, home }
  const state = known === undefined ? { ...taken, tasks: [...taken.tasks, next] } : withTask(taken, next)
  if (!isLeftBehind || summary.state === 'ended') return saved(state, [])
  const stop = { type: 'stop', commandId: `${ref.attemptId}.stop`, ref } as const
  return saved(state, [{ type: 'send_stop', peerId: home.peerId, stop }])
}

/** A turn is given to another node only once the one before has declined it, in the time that the store lost. */
function withDeclined(task: Task, epoch: number): Task {
  const attempts = task.attempts.map((attempt): Attempt => {
    const wasOffered = attempt.phase === 'offered' && attempt.doubts?.includes('hub') === true
    return wasOffered && attempt.epoch < epoch ? { ...attempt, phase: 'declined' } : attempt
  })
  return { ...task, attempts }
}

function adoptedAgent(summary: AttemptSummary, { no, home }: { readonly no: number; readonly home: Home }): Agent {
  return {
    agentId: summary.ref.agentId,
    no,
    ...(summary.title === undefined ? {} : { title: summary.title }),
    filters: { machine: home.machine, labels: {}, requires: [] },
    boundTo: home.peerId,
    lostAfterMs: limits.lostAfterMs,
    settings: {},
    startedAtMs: summary.claimedAtMs,
    tasks: [],
  }
}

function adoptedTask({ ref, claimedAtMs }: AttemptSummary, turn: number): Task {
  const { taskId } = ref
  return newTask({ taskId, turn, textHash: '', timeoutMs: limits.spawnWaitMs, atMs: claimedAtMs })
}
