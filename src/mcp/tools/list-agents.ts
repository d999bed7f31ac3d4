import { reads, type Tool } from './tool.ts'

export const listAgents: Tool = {
  name: 'list_agents',
  title: 'List agents',
  description:
    'Lists the agents that this project spawned, newest first, with state, liveness and its evidence, usage and what is pending. ' +
    'These are not the agents of the built-in ListAgents.',
  annotations: reads,
}
