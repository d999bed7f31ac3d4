import { getResult } from './get-result.ts'
import { listAgents } from './list-agents.ts'
import { listNodes } from './list-nodes.ts'
import { sendMessage } from './send-message.ts'
import { spawnAgent } from './spawn-agent.ts'
import { stopAgent } from './stop-agent.ts'
import type { Tool } from './tool.ts'
import { waitForAgents } from './wait-for-agents.ts'

/** The tools of the hub's toolset, in the order in which they are listed. */
export const hubTools: readonly Tool[] = [
  spawnAgent,
  waitForAgents,
  getResult,
  sendMessage,
  stopAgent,
  listAgents,
  listNodes,
]
