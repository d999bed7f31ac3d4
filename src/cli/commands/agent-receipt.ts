import type { Command } from 'commander'
import { errorCodes } from '../../core/errors.ts'
import type { ReceiptBody } from '../../core/receipt.ts'
import type { ReceiptDocument } from '../../ports/hub-api.ts'
import { hubLeaf } from '../command.ts'
import { agentId, wholeNumber } from '../values.ts'
import type { AgentWorld } from './agent-call.ts'

/** `nfltr agent receipt` — what the node signed about a turn, checked against what this hub knows of it. */
export function agentReceipt(world: AgentWorld): Command {
  return hubLeaf('receipt', 'show and check what a node signed about a turn')
    .argument('<id>', 'agent id', agentId)
    .option('--turn <n>', 'which turn; default: the latest that has one', wholeNumber({ min: 1, max: 1_000_000 }))
    .addHelpText('after', '\nExample:\n  $ nfltr agent receipt agt_1f0c --json')
    .action(async (id: string, _options: unknown, command: Command) => {
      const options = command.optsWithGlobals<{ hubId?: string; turn?: number }>()
      const hub = await world.connect(options)
      const kept = await hub.receipt(id, options.turn === undefined ? {} : { turn: options.turn })
      const body = await world.openReceipt(
        { receiptId: kept.receipt_id, envelope: new Uint8Array(Buffer.from(kept.envelope, 'base64')) },
        { machinePeerId: kept.peer_id },
      )
      const differences = differencesOf(kept, body)
      const document = documentOf(kept, body, differences)
      world.io.answer(document, JSON.stringify(document, undefined, 2))
      if (differences.length === 0) return
      world.io.warn(
        `The receipt does not say what this hub knows: ${differences.join(', ')}. The node signed something else than what it sent, or the store of this hub was changed.`,
      )
      process.exitCode = errorCodes.bad_signature.exit
    })
}

/** Fields of the receipt that say something else than the hub knows. */
function differencesOf(kept: ReceiptDocument, body: ReceiptBody): readonly string[] {
  const pairs: readonly (readonly [string, string, string])[] = [
    ['hub_id', kept.hub_id, body.hubId],
    ['agent_id', kept.agent_id, body.agentId],
    ['task_id', kept.task_id, body.taskId],
    ['attempt_id', kept.attempt_id, body.attemptId],
    ['owner', kept.peer_id, body.owner],
    ['outcome', kept.outcome, body.outcome],
    ['result_hash', kept.result_hash, body.resultHash],
    // A turn that a hub took in from its node after its store was put back: it never knew the brief.
    ...(kept.inputs_hash === '' ? [] : [['inputs_hash', kept.inputs_hash, body.inputsHash] as const]),
  ]
  return pairs.filter(([, known, signed]) => known !== signed).map(([name]) => name)
}

function documentOf(kept: ReceiptDocument, body: ReceiptBody, differences: readonly string[]): object {
  const at = (ms: number): string => new Date(ms).toISOString()
  return {
    schema: 1,
    ok: differences.length === 0,
    receipt_id: kept.receipt_id,
    hub_id: body.hubId,
    agent_id: body.agentId,
    task_id: body.taskId,
    turn: kept.turn,
    attempt_id: body.attemptId,
    attempt: body.attempt,
    machine: kept.machine,
    owner: body.owner,
    outcome: body.outcome,
    ...(body.reason === undefined ? {} : { reason: body.reason }),
    inputs_hash: body.inputsHash,
    result_hash: body.resultHash,
    claimed_at: at(body.claimedAtMs),
    ...(body.startedAtMs === undefined ? {} : { started_at: at(body.startedAtMs) }),
    ended_at: at(body.endedAtMs),
    settled_at: at(body.settledAtMs),
    previous_hash: body.previousHash,
    envelope: kept.envelope,
    differences,
  }
}
