import { NfltrError } from '../core/errors.ts'
import type { StoredReceipt } from '../core/receipt.ts'
import type { ReceiptDocument } from '../ports/hub-api.ts'
import { keys, readRecord } from './records.ts'
import { unknownAgent } from './wait.ts'
import type { HubWorld } from './world.ts'

/**
 * `agent receipt`: what the node signed about a turn, and what this hub knows of that turn to hold it against.
 *
 * @throws {NfltrError} `not_found` for an agent or turn that does not exist, and while there is no receipt yet
 */
export async function receiptOf(
  world: HubWorld,
  agentId: string,
  options: { readonly turn?: number },
): Promise<ReceiptDocument> {
  await world.engine.settled()
  const agent = world.agents.get(agentId)
  if (agent === undefined) throw unknownAgent(agentId)
  const turn = options.turn ?? agent.tasks.findLast((task) => task.receiptId !== undefined)?.turn ?? agent.tasks.length
  const task = agent.tasks[turn - 1]
  if (task === undefined) {
    throw new NfltrError('not_found', `The agent ${agentId} has had ${agent.tasks.length} turns, not ${turn}.`, {
      details: { argument: 'turn' },
    })
  }
  const receipt = await readRecord<StoredReceipt>(world.store, keys.receipt(task.taskId))
  const end = task.lateEnd ?? task.end
  if (receipt === undefined || end === undefined) {
    throw new NfltrError('not_found', `There is no receipt of turn ${turn} of the agent ${agentId}.`, {
      hint: 'A node signs it once the hub has the result of a turn that ran; it comes when the node is connected.',
    })
  }
  const attempt = task.attempts.findLast(({ phase }) => phase === 'ended' || phase === 'lost') ?? task.attempts.at(-1)
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(await world.mailbox.readText(end.deliveryId))
  return {
    schema: 1,
    receipt_id: receipt.receiptId,
    envelope: base64(receipt.envelope),
    hub_id: world.facts.hubId,
    agent_id: agentId,
    task_id: task.taskId,
    turn,
    attempt_id: attempt?.attemptId ?? '',
    machine: attempt?.machine ?? '',
    peer_id: attempt?.peerId ?? '',
    outcome: end.outcome,
    inputs_hash: task.briefHash,
    result_hash: world.facts.sha256(text),
  }
}

/** Of a few KiB at most: a receipt. */
function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
}
