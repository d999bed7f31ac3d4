import * as z from 'zod'
import { agentStates, outcomes } from '../../core/model.ts'
import type { ToolName } from '../../ports/hub-api.ts'

/**
 * What each tool answers, as `tools/list` publishes it. Open shapes: fields are added over time and an absent one means
 * *unknown*. The hub builds these documents in `hub/present.ts`; a test holds them against these shapes.
 */

const count = z.number().int().nonnegative()
const at = z.string().describe('RFC 3339, UTC.')
const deliveryId = z.number().int().positive()

const liveness = z.looseObject({
  state: z.enum(['live', 'unverifiable', 'exited']),
  since: at,
  evidence: z.string(),
})

const facts = z
  .looseObject({
    undelivered: count.describe('Entries that no reply has carried yet.'),
    free_slots: count,
    nodes_online: count,
    nodes_unverifiable: count,
    agents_running: count,
    queued: count,
    matching_nodes: z.array(z.looseObject({ name: z.string(), state: z.string(), free_slots: count })),
    note: z.string().optional(),
  })
  .describe('What is known of the mesh now.')

const usage = z.looseObject({
  input_tokens: count,
  output_tokens: count,
  cost_usd: z.number(),
  duration_ms: count,
})

const resultEntry = z.looseObject({
  delivery_id: deliveryId,
  agent_id: z.string(),
  task_id: z.string(),
  attempt: count,
  turn: count,
  outcome: z.enum(outcomes).optional().describe('Absent while the turn runs.'),
  text: z.string(),
  text_bytes: count,
  next_offset: count.optional().describe('There is more text: read it with get_result from this offset.'),
  reason: z.string().optional(),
  hint: z.string().optional(),
  details: z.looseObject({}).optional(),
  machine: z.string().optional(),
  artifacts: z.array(z.looseObject({})),
  usage: usage.optional(),
  messages: z.array(z.looseObject({ message_id: z.string(), state: z.string() })).optional(),
  receipt_id: z.string().optional(),
  late: z.boolean().optional(),
  maybe_seen: z.boolean().optional(),
  superseded: z.boolean().optional(),
})

const unconfirmed = z.array(
  z.looseObject({
    delivery_id: deliveryId,
    kind: z.enum(['result', 'event', 'spawn']),
    agent_id: z.string().optional(),
  }),
)

const agent = z.looseObject({
  agent_id: z.string(),
  title: z.string().optional(),
  state: z.enum(agentStates),
  outcome: z.enum(outcomes).optional(),
  liveness,
  machine: z.string().optional(),
  last_activity_at: at,
  started_at: at,
  turns: count,
  usage,
  pending: z.looseObject({ requests: count, messages: count, undelivered: count }),
})

const node = z.looseObject({
  name: z.string(),
  peer_id: z.string(),
  state: z.enum(['online', 'unverifiable', 'offline']),
  description: z.string(),
  labels: z.record(z.string(), z.string()),
  capabilities: z.array(z.string()),
  offers: z.array(z.looseObject({ name: z.string(), mode: z.string() })),
  max_agents: count,
  running: count,
  free_slots: count,
  allows: z.looseObject({}),
})

export const toolOutputs = {
  spawn_agent: z.looseObject({
    delivery_id: deliveryId,
    agent_id: z.string().describe('Pass it to send_message, stop_agent, get_result and wait_for_agents.'),
    state: z.enum(agentStates),
    machine: z.string().optional().describe('Absent while it waits for a machine.'),
    facts,
  }),
  wait_for_agents: z.looseObject({
    results: z.array(resultEntry),
    events: z.array(z.looseObject({ delivery_id: deliveryId, kind: z.string() })),
    requests: z.array(z.looseObject({})),
    still_running: z.array(
      z.looseObject({ agent_id: z.string(), state: z.enum(agentStates), machine: z.string().optional(), liveness }),
    ),
    unconfirmed: unconfirmed.describe('Earlier replies that may not have been read: get_result has each again, whole.'),
    facts,
    catching_up: z.boolean().optional(),
  }),
  get_result: z.looseObject({
    entry: z.looseObject({}),
    text: z.string(),
    text_bytes: count,
    next_offset: count.optional(),
  }),
  send_message: z.looseObject({
    message_id: z.string(),
    how: z.enum(['running_turn', 'new_turn', 'held']),
  }),
  stop_agent: z.looseObject({
    state: z.enum(agentStates),
    evidence: z.looseObject({ text: z.string() }),
    receipt: z.looseObject({}).optional(),
  }),
  list_agents: z.looseObject({ agents: z.array(agent), next_cursor: z.string().optional() }),
  list_nodes: z.looseObject({ nodes: z.array(node), next_cursor: z.string().optional() }),
} satisfies Record<ToolName, z.ZodObject>
