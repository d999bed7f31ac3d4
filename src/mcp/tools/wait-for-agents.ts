import { changes, type Tool } from './tool.ts'

export const waitForAgents: Tool = {
  name: 'wait_for_agents',
  title: 'Wait for results',
  description:
    'Waits until something undelivered has arrived and returns it: the results of agents that ended, each exactly once. ' +
    'Returns at once when nothing runs or is queued, and at timeout_ms with what is still running. ' +
    'mode "all" returns when all named agents have ended. What does not fit max_bytes stays undelivered and is counted in facts.undelivered; ' +
    'a long text is cut with next_offset, and get_result reads on. unconfirmed[] names earlier entries whose reply may not have been read; get_result has them whole.',
  annotations: changes,
}
