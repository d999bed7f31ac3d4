import { isOpenAgent } from '../core/task.ts'
import type { Agent } from '../core/task-record.ts'
import { endedAs } from './agent-state.ts'
import type { AgentRow } from './records.ts'

export function rowOf(agent: Agent): AgentRow {
  const { no, agentId } = agent
  return isOpenAgent(agent) ? { no, agentId } : { no, agentId, ended: endedAs(agent) }
}
