import { createHash } from 'node:crypto'
import { join } from 'node:path'
import process from 'node:process'
import { createKeepers } from '../../src/keeper/client.ts'
import { createClaudeDriver } from '../../src/node/drivers/claude/driver.ts'
import { openNode } from '../../src/node/node.ts'
import { agentFolders } from '../../src/platform/agent-folders.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { bootId } from '../../src/platform/process-table.ts'
import { systemPrograms } from '../../src/platform/programs.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Link } from '../../src/ports/peers.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { hubFacts, nodeFacts } from '../contracts/memory-link.ts'
import { IpcLink, type IpcMessage } from './ipc-link.ts'
import { settings } from './world.ts'

/**
 * A node in a process of its own, for tests that kill it with -9: real store, real keepers, real folders; its only hub is
 * its parent process.
 */
const [home = '', program = ''] = process.argv.slice(2)
const clock = systemClock()
const store = await openLevelStore(join(home, 'node'))
const links = new Map<number, IpcLink>()
const accepts: ((link: Link) => void)[] = []
const post = (message: IpcMessage): void => void process.send?.(message)

const node = await openNode({
  engine: new Engine(store),
  store,
  clock,
  random: systemRandom(),
  peers: {
    self: nodeFacts,
    connected: () => [],
    watch: () => () => undefined,
    members: () => [],
    watchMembers: () => () => undefined,
    openSession: () => Promise.reject(new Error('a node opens no session')),
    serveSessions: (accept) => void accepts.push(accept),
    askAccount: () => Promise.reject(new Error('a node asks no node')),
    serveAccounts: () => undefined,
    want: () => undefined,
    probe: async () => 1,
  },
  keepers: createKeepers({ attemptsDir: join(home, 'node/attempts'), runDir: join(home, 'run'), clock }),
  driver: createClaudeDriver({
    programs: systemPrograms(),
    program,
    own: { PATH: process.env['PATH'] ?? '', HOME: home, LANG: 'C.UTF-8' },
    passEnv: [],
    isRoot: process.getuid?.() === 0,
    credential: async () => ({ kind: 'api_key', secret: 'sk-ant-test', baseUrl: 'http://127.0.0.1:9' }),
  }),
  workspaces: agentFolders({ agentsDir: join(home, 'node/agents'), offers: [] }),
  signReceipt: async (body) => {
    const envelope = new TextEncoder().encode(JSON.stringify(body))
    return { receiptId: `rcp_${createHash('sha256').update(envelope).digest('hex')}`, envelope }
  },
  bootId: bootId(),
  settings,
})

process.on('message', (message: IpcMessage) => {
  if (message.type === 'ready') return
  if (message.type === 'open') {
    const link = new IpcLink({ id: message.link, peer: hubFacts, post })
    links.set(message.link, link)
    for (const accept of accepts) accept(link)
    return
  }
  links.get(message.link)?.take(message)
})
process.on('disconnect', () => process.exit())
await node.start()
post({ type: 'ready' })
