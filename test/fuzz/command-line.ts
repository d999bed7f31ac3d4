import { CommanderError } from 'commander'
import { buildProgram, usageError } from '../../src/cli/program.ts'
import type { World } from '../../src/cli/world.ts'
import { mutateText } from './mutate.ts'
import { type Target, verdictOn } from './target.ts'

const rightLines: readonly (readonly string[])[] = [
  ['mesh', 'create', '--name', 'laptop', '--json'],
  [
    'mesh',
    'invite',
    '--role',
    'node',
    '--name',
    'vm1',
    '--ttl',
    '15m',
    '--no-wait',
    '--listen',
    '/ip4/127.0.0.1/tcp/1',
  ],
  ['mesh', 'join', '--invite-file', '-', '--peer', '/ip4/127.0.0.1/tcp/1', '--mesh', `SHA256:${'0'.repeat(64)}`],
  ['mesh', 'approve', '0'.repeat(64), '--role', 'node', '--name', 'vm1'],
  ['mesh', 'revoke', 'vm1'],
  ['node', 'join', '--max-agents', '2', '--label', 'gpu=a100', '--offer', 'data=/srv:ro', '--lost-after', '90s'],
  ['agent', 'spawn', '--brief-file', '-', '--machine', 'vm1', '--timeout-ms', '0', '--max-budget-usd', '1.5'],
  ['agent', 'wait', 'agt_1', '--all', '--timeout', '10m'],
  ['agent', 'result', 'agt_1', '--turn', '1'],
  ['agent', 'logs', 'agt_1', '--json'],
  ['config', 'set', 'hub.keep_results', '30d'],
  ['mcp', '--toolset', 'hub', '--hub-id', 'hub'],
  ['doctor', '--node', 'vm1'],
]

/** The command line was understood, and its command has begun. */
class Taken extends Error {}

/** Command lines over the whole command tree, up to where a command would touch the world. */
const commandLine: Target = {
  kind: 'command line',
  share: 2,
  open: async () => {
    const everything: object = new Proxy(() => undefined, {
      get: () => everything,
      apply: () => {
        throw new Taken()
      },
    })
    const world = new Proxy({}, { get: (_, name) => (name === 'version' ? '0' : everything) }) as World
    return {
      try: async (random) => {
        const words = [...random.pick(rightLines)]
        for (let round = random.int(1, 2); round > 0; round--) {
          const at = random.int(0, words.length - 1)
          const word = words[at] ?? ''
          words.splice(at, random.int(0, 1), random.chance(0.5) ? mutateText(random, word) : random.pick(words))
        }
        return verdictOn(words.join(' '), async () => {
          try {
            const program = buildProgram(world)
            program.configureOutput({ writeOut: () => undefined, writeErr: () => undefined })
            for (const noun of program.commands) {
              for (const command of [noun, ...noun.commands, ...noun.commands.flatMap((one) => one.commands)])
                command.configureOutput({ writeOut: () => undefined, writeErr: () => undefined })
            }
            await program.parseAsync(words, { from: 'user' })
          } catch (thrown) {
            if (thrown instanceof Taken) return
            const refusal = thrown instanceof CommanderError ? usageError(thrown) : thrown
            if (refusal !== undefined) throw refusal
          }
        })
      },
      close: async () => undefined,
    }
  },
}

export const commandLines: readonly Target[] = [commandLine]
