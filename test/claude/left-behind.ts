import { existsSync, readFileSync } from 'node:fs'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { controlGroupName } from '../../src/platform/control-group.ts'
import { listProcesses, type ProcessEntry } from '../../src/platform/process-table.ts'
import { processesOfFolder } from '../../src/platform/processes-of-folder.ts'
import type { Machine } from '../e2e/machine.ts'
import type { RealMesh } from './real-mesh.ts'

/** What is still there of a mesh after its node and its hub were asked to end. Everything empty: nothing was left. */
export interface LeftBehind {
  readonly processes: readonly string[]
  readonly sockets: readonly string[]
  readonly groups: readonly string[]
  /** Files that no expectation of this suite covers. */
  readonly files: readonly string[]
}

/** Ends node and hub as a person would, and looks. Folders of the mesh stay until it is disposed of. */
export async function leftBehind(mesh: RealMesh): Promise<LeftBehind> {
  const status = await mesh.hub.json(['hub', 'status'])
  await mesh.hub.json(['hub', 'stop'])
  mesh.running().kill('SIGTERM')
  await mesh.running().finished
  const folders = [rootOf(mesh.hub), rootOf(mesh.node), mesh.scratch]
  const { agents, attempts } = await idsOf(mesh)
  const files = (await Promise.all(folders.map((folder) => everythingBelow(folder)))).flat()
  return {
    processes: [...new Set([...folders.flatMap((folder) => processesOfFolder(folder)), ...marked(agents)])].map(
      ({ pid }) => `${pid}${pid === status['pid'] ? ' (the hub)' : ''}`,
    ),
    sockets: [...files.filter(({ isSocket }) => isSocket).map(({ path }) => path), ...(await socketsOfPrograms(mesh))],
    groups: await groupsOf(attempts),
    files: [
      ...unexpected(mesh.hub.home, files, hubFiles),
      ...unexpected(mesh.node.home, files, nodeFiles),
      ...mesh.temporary.flatMap((folder) => unexpected(folder, files, [])),
      ...unexpected(rootOf(mesh.node), files, ['home/.*']),
      ...unexpected(rootOf(mesh.hub), files, [String.raw`(home|\.cache/claude-cli-nodejs)/.*`]),
    ],
  }
}

/** A home of the suite lies in a folder that is the machine's user's home, too. */
function rootOf(machine: Machine): string {
  return join(machine.home, '..')
}

const peer = '12D3KooW[A-Za-z0-9]+'
const hex = '[0-9a-f]{32}'
const database = String.raw`db/(\d{6}\.(ldb|log)|CURRENT|LOCK|LOG(\.old)?|MANIFEST-\d{6})`

const ofAnyHome = [
  'mesh/membership',
  'mesh/seen-time',
  `mesh/roster/${peer}`,
  `mesh/answered/${peer}`,
  String.raw`config/keys/machine\.(key|lock\.\d+)`,
]

const hubFiles = [
  ...ofAnyHome,
  `issuer/(serial|(serial-)?lock\\.\\d+|names/(laptop|vm1)|(invites|claims)/${hex})`,
  `config/keys/(mesh\\.key|(issuer|hub-hub-[0-9a-f]{16})\\.(key|lock\\.\\d+))`,
  `hubs/hub-[0-9a-f]{16}/(hub\\.log|db\\.marker|db\\.sums|starts\\.json|${database})`,
]

/** Journals stay for as long as their results may be asked for; an agent can go on for as long as its folder is there. */
const nodeFiles = [
  ...ofAnyHome,
  `node/(db\\.marker|db\\.sums|starts\\.json|${database}|attempts/att_${hex}/(journal|keeper\\.log))`,
  `node/agents/agt_${hex}/att_${hex}/workspace/[a-z]+(\\.txt)?`,
  `node/agents/agt_${hex}/att_${hex}/private/(shell-prefix|instructions\\.md)`,
  `node/agents/agt_${hex}/att_${hex}/private/claude/(\\.claude\\.json|projects/[^/]+/[0-9a-f-]{36}\\.jsonl|(plugins/store|backups|sessions|shell-snapshots)/[^/]+)`,
]

interface Found {
  readonly path: string
  readonly isSocket: boolean
}

async function everythingBelow(folder: string): Promise<readonly Found[]> {
  const found: Found[] = []
  for (const name of await readdir(folder, { recursive: true })) {
    const path = join(folder, name)
    const stats = await lstat(path).catch(() => undefined)
    if (stats !== undefined && !stats.isDirectory()) found.push({ path, isSocket: stats.isSocket() })
  }
  return found
}

function unexpected(folder: string, files: readonly Found[], expected: readonly string[]): readonly string[] {
  const pattern = new RegExp(`^(${expected.join('|')})$`)
  return files.map(({ path }) => relative(folder, path)).filter((path) => !path.startsWith('..') && !pattern.test(path))
}

/** Every agent and attempt that the node made folders for. */
async function idsOf(
  mesh: RealMesh,
): Promise<{ readonly agents: readonly string[]; readonly attempts: readonly string[] }> {
  const folder = join(mesh.node.home, 'node')
  const agents = (await readdir(join(folder, 'agents'))).filter((name) => name.startsWith('agt_'))
  const first = await Promise.all(agents.map((agent) => readdir(join(folder, 'agents', agent))))
  return { agents, attempts: [...new Set([...first.flat(), ...(await readdir(join(folder, 'attempts')))])] }
}

/** Processes that carry the mark of one of these agents, wherever they lie and whoever started them. */
function marked(agents: readonly string[]): readonly ProcessEntry[] {
  const marks = agents.map((id) => `NFLTR_AGENT_ID=${id}`)
  return listProcesses().filter(({ pid, isZombie }) => {
    if (isZombie) return false
    try {
      const environ = readFileSync(`/proc/${pid}/environ`, 'utf8')
      return marks.some((mark) => environ.includes(mark))
    } catch {
      return false
    }
  })
}

/** Sockets that the agents' programs said they had opened, and that are still there. */
async function socketsOfPrograms(mesh: RealMesh): Promise<readonly string[]> {
  const attempts = join(mesh.node.home, 'node', 'attempts')
  const journals = await readdir(attempts, { recursive: true })
  const texts = await Promise.all(
    journals.filter((name) => name.endsWith('journal')).map((name) => readFile(join(attempts, name), 'latin1')),
  )
  const said = texts.flatMap((text) =>
    [...text.matchAll(/"messaging_socket_path":"([^"]+)"/g)].map(([, path = '']) => path),
  )
  if (said.length === 0) throw new Error('no program said where its socket is')
  return [...new Set(said)].filter((path) => existsSync(path))
}

async function groupsOf(attempts: readonly string[]): Promise<readonly string[]> {
  const names = attempts.map(controlGroupName)
  const groups = await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])
  return groups.filter((group) => names.some((name) => basename(group).startsWith(name)))
}
