import type { HubApi, ToolCall, ToolReply } from '../../src/ports/hub-api.ts'

/** A hub whose answers a test gives, and which records what it was told. */
export interface ScriptedHub extends HubApi {
  readonly calls: ToolCall[]
  readonly words: string[]
  readonly holds: string[]
  answer: (call: ToolCall) => Promise<ToolReply>
}

export function scriptedHub(): ScriptedHub {
  const hub: ScriptedHub = {
    calls: [],
    words: [],
    holds: [],
    answer: async (call) => ({ body: JSON.stringify({ echoed: call.args }) }),
    hold: async (session) => {
      hub.holds.push(`held ${session.sessionKey}`)
      return {
        release: async () => {
          hub.holds.push(`released ${session.sessionKey}`)
        },
      }
    },
    call: (call) => {
      hub.calls.push(call)
      return hub.answer(call)
    },
    confirm: async (key) => void hub.words.push(`confirm ${key}`),
    withdraw: async (key) => void hub.words.push(`withdraw ${key}`),
    doubt: async (key) => void hub.words.push(`doubt ${key}`),
    status: async () => ({
      schema: 1,
      hub_id: 'hub-test',
      project: '/tmp/project',
      pid: 1,
      state: 'free',
      agents: {},
      undelivered: 0,
      epoch: 1,
      usage: { input_tokens: 0, output_tokens: 0, cost_usd: 0 },
      store: { state: 'sound', damage: [] },
    }),
    backup: async ({ file }) => ({
      file,
      hub_id: 'hub-test',
      store_id: '00',
      incarnation: 1,
      commits: 1,
      records: 1,
      bytes: 1,
      made_at: '2030-01-01T00:00:00.000Z',
    }),
    showAgent: async (id) => ({ agent_id: id }),
    account: async () => ({ hubId: 'hub_1', head: { seq: 0, hash: '' }, lines: [] }),
    nodeAccount: async (peerId) => ({ peerId, attempts: [] }),
    receipt: async (id, { turn = 1 }) => ({
      schema: 1,
      receipt_id: 'rcp_1',
      envelope: '',
      hub_id: 'hub_1',
      agent_id: id,
      task_id: 'tsk_1',
      turn,
      attempt_id: 'att_1',
      machine: 'vm1',
      peer_id: 'peer-vm1',
      outcome: 'completed',
      inputs_hash: '',
      result_hash: '',
    }),
    logs: async (_id, { fromSeq, limit }) => ({ events: [{ seq: fromSeq }], nextSeq: fromSeq + limit }),
    stop: async () => void hub.words.push('stop'),
  }
  return hub
}
