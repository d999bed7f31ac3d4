import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lstat, mkdir, realpath, rm, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import type { Offer, Reason } from '../core/model.ts'
import type { Workspace, WorkspaceRequest, Workspaces } from '../ports/workspaces.ts'
import { freeBytes } from './disk.ts'
import { diskErrorOr, ensurePrivateFolder, errorCode } from './files.ts'

export interface AgentFoldersOptions {
  /** `node/agents` of the home. Made where it is missing, closed to everyone else. */
  readonly agentsDir: string
  readonly offers: readonly OfferedFolder[]
}

export interface OfferedFolder extends Offer {
  /** Absolute path, as the machine's owner gave it. */
  readonly path: string
}

/**
 * Folders on this machine's disk: `agents/AGENT/ATTEMPT/{workspace,private}`, named by the attempt that began the agent's
 * session, and `agents/tmp-…`. Everything of ours is mode 0700; an offered folder is used as it is and never changed by us.
 */
export function agentFolders(options: AgentFoldersOptions): Workspaces {
  const { agentsDir, offers } = options
  return {
    async prepare(request) {
      try {
        return await prepare(agentsDir, offers, request)
      } catch (error) {
        throw refusalOf(error)
      }
    },
    discardTemporary: (request) => rm(tmpDirOf(agentsDir, request), { recursive: true, force: true }),
    async freeBytes() {
      await ensurePrivateFolder(agentsDir)
      return freeBytes(agentsDir)
    },
  }
}

async function prepare(
  agentsDir: string,
  offers: readonly OfferedFolder[],
  request: WorkspaceRequest,
): Promise<Workspace> {
  await ensurePrivateFolder(agentsDir)
  const root = rootOf(agentsDir, request)
  const path = request.dir === undefined ? await ownWorkspace(root, request) : await offered(offers, request.dir)
  if (request.knownPath !== undefined && request.knownPath !== path) {
    throw refused('workspace', 'The folder that the agent worked in is another one now.')
  }
  const privateDir = join(root, 'private')
  const tmpDir = tmpDirOf(agentsDir, request)
  await ensurePrivateFolder(privateDir)
  await ensurePrivateFolder(tmpDir)
  return { path, privateDir: await realpath(privateDir), tmpDir: await realpath(tmpDir) }
}

/** The agent's own folder: made empty for its first turn, and only found again for a later one. */
async function ownWorkspace(root: string, request: WorkspaceRequest): Promise<string> {
  const path = join(root, 'workspace')
  if (request.attemptId === request.originAttemptId) await mkdir(path, { recursive: true, mode: 0o700 })
  const stats = await lstat(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') throw refused('workspace', 'The folder of this agent is no longer there.')
    throw error
  })
  // An agent can replace its folder by a link; the next turn must not follow it.
  if (!stats.isDirectory()) throw refused('workspace', 'The folder of this agent was replaced by something else.')
  return realpath(path)
}

/** Resolves `NAME` or `NAME/path`. Only real paths are compared: what a link is called says nothing (rule 34). */
async function offered(offers: readonly OfferedFolder[], dir: string): Promise<string> {
  const [name = '', ...segments] = dir.split('/')
  const offer = offers.find((candidate) => candidate.name === name)
  if (offer === undefined) throw refused('dir_not_offered', 'This machine has no offer of that name.')
  if (dir.includes('\0') || segments.some((segment) => segment === '..')) {
    throw refused('dir_not_offered', `The folder does not lie below the offer ${name}.`)
  }
  if (offer.mode === 'ro') {
    throw refused('sandbox_unavailable', `The offer ${name} is for reading only, and nothing here can enforce that.`)
  }
  const [base, path] = await Promise.all([resolve(offer.path, name), resolve(join(offer.path, ...segments), name)])
  if (path !== base && !path.startsWith(base.endsWith(sep) ? base : base + sep)) {
    throw refused('dir_not_offered', `The folder does not lie below the offer ${name}.`)
  }
  if (!(await stat(path)).isDirectory())
    throw refused('workspace', `What lies there in the offer ${name} is no folder.`)
  await access(path, constants.R_OK | constants.W_OK | constants.X_OK).catch(() => {
    throw refused('workspace', `The folder in the offer ${name} cannot be written to.`)
  })
  return path
}

async function resolve(path: string, offer: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const code = errorCode(error)
    if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'ELOOP' && code !== 'EACCES') throw error
    throw refused('workspace', `There is no such folder in the offer ${offer}.`)
  }
}

function rootOf(agentsDir: string, request: WorkspaceRequest): string {
  return join(agentsDir, folderName(request.agentId), folderName(request.originAttemptId))
}

/**
 * A short path, because programs put sockets into their temporary folder. Where the path of one would be too long, Claude
 * Code puts it into a folder of all its sessions, and there it stays when the program is killed.
 */
function tmpDirOf(agentsDir: string, request: WorkspaceRequest): string {
  const attempt = `${folderName(request.agentId)}/${folderName(request.attemptId)}`
  return join(agentsDir, `tmp-${createHash('sha256').update(attempt).digest('hex').slice(0, 16)}`)
}

/** Ids come from a hub. They were checked before; here they become paths. */
function folderName(id: string): string {
  if (!/^[A-Za-z0-9_-]{1,128}$/.test(id)) throw refused('workspace', 'An id was no name for a folder.')
  return id
}

function refused(reason: Reason, message: string): NfltrError {
  return new NfltrError('launch_failed', message, { details: { reason } })
}

function refusalOf(error: unknown): unknown {
  if (error instanceof NfltrError) return error
  const known = diskErrorOr(error, 'The folders of an agent')
  const isFull = known instanceof NfltrError && known.code === 'disk_full'
  const [reason, message]: [Reason, string] = isFull
    ? ['disk_full', 'The disk of this machine is full.']
    : ['workspace', 'The folders of the agent could not be made.']
  return new NfltrError('launch_failed', message, { details: { reason }, cause: error })
}
