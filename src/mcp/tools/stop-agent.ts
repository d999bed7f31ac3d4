import type { Tool } from './tool.ts'

export const stopAgent: Tool = {
  name: 'stop_agent',
  title: 'Stop an agent',
  description:
    "Interrupts an agent's turn and ends its process. Answers within 12 seconds with the text so far and a receipt that says what was proven: exit_proof names how strongly. " +
    'Its work folder stays; a message starts a new turn. A queued agent is ended before anything ran. The stopped agent also comes once in wait_for_agents.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
}
