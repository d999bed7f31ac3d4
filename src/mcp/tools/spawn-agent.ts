import { changes, type Tool } from './tool.ts'

export const spawnAgent: Tool = {
  name: 'spawn_agent',
  title: 'Spawn an agent on a machine',
  description:
    'Starts an agent, a Claude Code process of its own, on a machine that joined the mesh, and returns its id at once, before the work begins. ' +
    'The agent sees the brief and its workspace and nothing of this conversation. It runs on when this session ends. ' +
    'Its result comes exactly once, through wait_for_agents. Without machine, labels, requires or dir any machine with a free slot is used; ' +
    'if none has one, the agent is queued for timeout_ms. These agents are not the ones of the built-in ListAgents.',
  annotations: changes,
}
