import type { Command } from 'commander'
import { Option } from 'commander'
import { hubLeaf } from '../command.ts'
import { readTextArgument } from '../input.ts'
import { collect, collectText, keyValue, positiveNumber, wholeNumber } from '../values.ts'
import { type AgentWorld, type Document, HubConversation, spawnText, toolFields } from './agent-call.ts'

const spanMs = wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER })
const count = wholeNumber({ min: 1, max: 1_000_000 })

const passedOn = [
  'title',
  'machine',
  'dir',
  'model',
  'effort',
  'requires',
  'max_budget_usd',
  'max_turns',
  'timeout_ms',
  'deadline_ms',
  'lost_after_ms',
  'idempotency_key',
] as const

/** `nfltr agent spawn` — the tool `spawn_agent` from a shell; the flags are its fields. */
export function agentSpawn(world: AgentWorld): Command {
  return hubLeaf('spawn', 'start an agent on a machine of the mesh')
    .requiredOption('--brief-file <file>', 'what to do and what counts as done; - reads standard input')
    .option('--title <text>', 'a short name for lists')
    .option('--machine <name>', 'only this machine')
    .addOption(
      new Option('--label, --labels <name=value>', 'a label the machine must have; may be repeated').argParser(
        collect(keyValue),
      ),
    )
    .option('--requires <capability>', 'a capability the machine must declare; may be repeated', collectText)
    .option('--dir <offer>', "an offered folder's name, or NAME/path below one")
    .option('--model <model>', "passed to the agent's CLI as it is")
    .option('--effort <effort>', "passed to the agent's CLI as it is")
    .option('--max-budget-usd <amount>', 'per turn', positiveNumber)
    .option('--max-turns <n>', 'model round trips per turn', count)
    .option('--timeout-ms <ms>', 'how long to wait for a machine; 0: now or never', spanMs)
    .option('--deadline-ms <ms>', "the turn's longest running time", spanMs)
    .option('--lost-after-ms <ms>', 'how long the machine may be silent before the agent counts as lost', spanMs)
    .option('--idempotency-key <key>', 'the same key gives the same agent')
    .addHelpText(
      'after',
      '\nExample:\n  $ echo "Count the lines of *.csv" | nfltr agent spawn --brief-file - --machine vm1',
    )
    .action(async (_options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const brief = await readTextArgument(world.io, String(options['briefFile']), '--brief-file')
      const labels = options['labels'] as readonly (readonly [string, string])[] | undefined
      const conversation = new HubConversation(world.io, await world.connect(options))
      const reply = await conversation.call('spawn_agent', {
        brief,
        ...toolFields(options, passedOn),
        ...(labels === undefined ? {} : { labels: Object.fromEntries(labels) }),
      })
      world.io.answer(reply, spawnText(reply))
      const note = (reply['facts'] as Document | undefined)?.['note']
      if (note !== undefined) world.io.note(String(note))
      await conversation.finish()
    })
}
