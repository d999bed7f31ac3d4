import type { Attempt } from './attempt.ts'
import { limits } from './limits.ts'
import type { AttemptSummary } from './messages.ts'
import type { Agent, Home, Task } from './task-record.ts'
import { newTask, withTask } from './task-step.ts'

/**
 * Takes an attempt in that a node has and this hub's store knows nothing of: it was put back to a time before the attempt
 * (rule 6). The agent or its turn may be unknown as well; what the node did not say of them stays absent.
 *
 * @param found - the agent as the hub knows it, and the number that a new one takes
 * @returns undefined where the attempt is known
 */
export function adoptAttempt(
  found: { readonly agent: Agent | undefined; readonly no: number },
  summary: AttemptSummary,
  home: Home,
): Agent | undefined {
  const { ref } = summary
  const agent = found.agent ?? adoptedAgent(summary, { no: found.no, home })
  const known = agent.tasks.find((task) => task.taskId === ref.taskId)
  if (known?.attempts.some((attempt) => attempt.attemptId === ref.attemptId)) return undefined
  const task = known ?? adoptedTask(summary, agent.tasks.length + 1)
  const attempt: Attempt = {
    attemptId: ref.attemptId,
    number: 1 + task.attempts.filter((earlier) => earlier.phase !== 'declined').length,
    epoch: ref.epoch,
    ...home,
    phase: 'claimed',
    isSuperseded: false,
    hasLateResult: false,
    doubts: ['hub'],
  }
  const next: Task = {
    ...task,
    stage: task.end === undefined ? 'execute' : task.stage,
    nextEpoch: Math.max(task.nextEpoch, ref.epoch + 1),
    attempts: [...task.attempts, attempt].sort((a, b) => a.epoch - b.epoch),
  }
  const taken: Agent = { ...agent, home }
  return known === undefined ? { ...taken, tasks: [...taken.tasks, next] } : withTask(taken, next)
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
