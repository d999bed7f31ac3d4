import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import type { Settings } from '../../config/settings.ts'
import { NfltrError } from '../../core/errors.ts'
import { clockToleranceMs, isWithin, type Membership, type Role } from '../../core/membership.ts'
import { meshClosed, meshKeysHere } from '../../identity/mesh-keys.ts'
import { loadMachine } from '../../identity/mesh-setup.ts'
import type { LanStatus } from '../../mesh/peers.ts'
import { freeBytes } from '../../platform/disk.ts'
import { ensurePrivateFolder } from '../../platform/files.ts'
import type { AgentDriver } from '../../ports/agent-driver.ts'
import type { Home } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { Check } from '../commands/doctor.ts'
import type { Context } from '../compose.ts'
import { agentProgram, credentialOf } from './agent-program.ts'
import { memberChecks } from './doctor-members.ts'
import { shakeHands } from './handshake.ts'
import { instant } from './instant.ts'
import { lookAround } from './look-around.ts'
import { addresses, settingsOfHome } from './mesh-process.ts'

/** Below this a node takes no new work, in bytes. */
const diskNeededBytes = 64 * 1024 * 1024

/** Everything a spawn on this machine needs, looked at in the order in which a person would mend it. */
export async function examine(
  context: Context,
  options: { readonly home?: string; readonly claude?: string; readonly node?: string },
): Promise<readonly Check[]> {
  const home = openHome({ ...options, env: context.env })
  const { settings, check: config } = await readSettings(context, home)
  const own = await mesh(home)
  const isNeeded = await isForAgents(home, { isNamed: (options.claude ?? settings['node.claude']) !== undefined, own })
  const ofAgents = (check: Check): Check => (isNeeded ? check : notNeeded(check))
  const driver = agentProgram(context, {
    home,
    program: options.claude ?? settings['node.claude'] ?? 'claude',
    passEnv: [],
  })
  return [
    await looked('disk', () => disk(home)),
    await looked('clock', () => clock(home)),
    config,
    own.check,
    ofAgents(await looked('claude', () => program(driver))),
    ofAgents(await looked('credential', () => credential(context, home))),
    ofAgents(await looked('handshake', () => handshake(context, home, driver))),
    ...(await beyond(context, home, { ...options, own, isConfigured: config.ok })),
    await onPath(context),
  ]
}

/** What needs the other members. */
async function beyond(
  context: Context,
  home: Home,
  asked: { readonly own: OwnMesh; readonly isConfigured: boolean; readonly node?: string },
): Promise<readonly Check[]> {
  const { own, isConfigured } = asked
  if (own.state === 'unreadable' || !isConfigured) {
    const message = `not looked for, since ${isConfigured ? 'mesh' : 'config'} is not in order`
    return [{ name: 'links', ok: true, message }]
  }
  try {
    return [...(await links(context, home)), ...(await memberChecks(context, home, asked))]
  } catch (thrown) {
    return [badFor('links', thrown)]
  }
}

async function looked(name: string, look: () => Promise<Check>): Promise<Check> {
  return await look().catch((thrown: unknown) => badFor(name, thrown))
}

function badFor(name: string, thrown: unknown): Check {
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  const hint = thrown instanceof NfltrError ? thrown.hint : undefined
  return { name, ok: false, message, fix: hint ?? 'mend what is named above' }
}

/** Settings with which nothing would start count as none, so that everything else is looked at all the same. */
async function readSettings(
  context: Context,
  home: Home,
): Promise<{ readonly settings: Settings; readonly check: Check }> {
  try {
    const settings = await settingsOfHome(context, home)
    await addresses(context, { home })
    return { settings, check: { name: 'config', ok: true, message: `settings of ${home.paths.configFile}` } }
  } catch (thrown) {
    const { message, fix } = badFor('config', thrown)
    const hint = `correct ${home.paths.configFile}, or the NFLTR_* variable that is named. ${fix ?? ''}`.trim()
    return { settings: {}, check: { name: 'config', ok: false, message, fix: hint } }
  }
}

/**
 * Whether agents are to run on this machine: its node runs, it is a member for that alone or none yet, or its owner gave it a
 * program or a credential for them. An owner's laptop has the role too, and mostly only starts agents elsewhere.
 */
async function isForAgents(home: Home, of: { readonly isNamed: boolean; readonly own: OwnMesh }): Promise<boolean> {
  const { roles } = of.own
  if (of.isNamed || of.own.state !== 'member' || (roles.includes('node') && !roles.includes('owner'))) return true
  const running = await home.running.list()
  return running.some(({ kind }) => kind === 'node') || (await hasCredential(home))
}

async function hasCredential(home: Home): Promise<boolean> {
  return await home.credentials.load().then(
    (kept) => kept !== undefined,
    () => true,
  )
}

function notNeeded(check: Check): Check {
  if (check.ok) return check
  return { name: check.name, ok: true, message: `not needed here, since no node runs: ${check.message}` }
}

async function onPath(context: Context): Promise<Check> {
  for (const folder of (context.env['PATH'] ?? '').split(delimiter)) {
    const file = join(folder, 'nfltr')
    if (await isProgram(file)) return { name: 'path', ok: true, message: `nfltr is ${file}` }
  }
  return {
    name: 'path',
    ok: false,
    message: 'nfltr is not on PATH',
    fix: 'add the folder of nfltr to PATH; scripts/install.sh prints the line',
  }
}

async function isProgram(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}

async function disk(home: Home): Promise<Check> {
  await ensurePrivateFolder(home.paths.node)
  const free = await freeBytes(home.paths.node)
  const message = `${Math.floor(free / 1024 / 1024)} MiB free below ${home.paths.node}`
  if (free >= diskNeededBytes) return { name: 'disk', ok: true, message }
  return { name: 'disk', ok: false, message, fix: 'free at least 64 MiB there' }
}

/** A clock behind what was signed already would refuse members that are valid. */
async function clock(home: Home): Promise<Check> {
  const now = Date.now()
  const seenMs = await home.mesh.seenTimeMs()
  if (now >= seenMs - clockToleranceMs) return { name: 'clock', ok: true, message: instant(now) }
  return {
    name: 'clock',
    ok: false,
    message: `${instant(now)} is before ${instant(seenMs)}, when a membership of this mesh was signed`,
    fix: 'set the clock of this machine',
  }
}

async function program(driver: AgentDriver): Promise<Check> {
  const probe = await driver.probe({ signal: AbortSignal.timeout(60_000) })
  if (probe.type === 'present') return { name: 'claude', ok: true, message: `${probe.program} ${probe.version}` }
  const fix = probe.reason === 'claude_too_old' ? 'update Claude Code' : 'install Claude Code, or name it with --claude'
  return { name: 'claude', ok: false, message: probe.message, fix }
}

async function credential(context: Context, home: Home): Promise<Check> {
  const found = await credentialOf(context, home)
  if (found !== undefined) return { name: 'credential', ok: true, message: found.kind }
  return {
    name: 'credential',
    ok: false,
    message: 'agents here would have no credential; a login of Claude Code itself is not used',
    fix: 'run `claude setup-token`, then `nfltr config add-credential --kind oauth-token`; or set ANTHROPIC_API_KEY for the node',
  }
}

async function handshake(context: Context, home: Home, driver: AgentDriver): Promise<Check> {
  try {
    const said = await shakeHands(driver, home)
    if (said.foreignSettings.length === 0)
      return { name: 'handshake', ok: true, message: `answered in ${said.tookMs} ms, no settings of others` }
    return {
      name: 'handshake',
      ok: false,
      message: `Claude Code loaded settings it should not: ${said.foreignSettings.join(', ')}`,
      fix: `report this with the version of Claude Code and of nfltr (${context.version})`,
    }
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    const fix =
      thrown instanceof NfltrError && thrown.hint !== undefined ? thrown.hint : 'mend what is named above first'
    return { name: 'handshake', ok: false, message, fix }
  }
}

/** This machine's place in a mesh. */
interface OwnMesh {
  readonly check: Check
  /** `unreadable`: what the home has of it does not count, or is about to go. */
  readonly state: 'member' | 'none' | 'unreadable'
  readonly roles: readonly Role[]
}

async function mesh(home: Home): Promise<OwnMesh> {
  try {
    const { membership, line } = await loadMachine(home)
    const check = line.dispute === undefined ? termOf(membership) : badFor('mesh', meshClosed(line.dispute))
    return { check, state: 'member', roles: membership.roles }
  } catch (thrown) {
    const isThere = await home.mesh.loadMembership().then(
      (membership) => membership !== undefined,
      () => true,
    )
    const check = badFor('mesh', thrown)
    const isMendable = thrown instanceof NfltrError && thrown.code !== 'store_damaged' && thrown.hint !== undefined
    if (!isThere || isMendable) return { check, state: isThere ? 'unreadable' : 'none', roles: [] }
    return { check: { ...check, fix: await restoring(home) }, state: 'unreadable', roles: [] }
  }
}

/** On an owner nothing may be removed: what is in its home may be in no second place. */
async function restoring(home: Home): Promise<string> {
  const files = `${join(home.paths.mesh, 'membership')} and ${join(home.paths.keys, 'machine.key')}`
  const isOwner = await meshKeysHere(home).then(
    (keys) => keys.length > 0,
    () => true,
  )
  if (isOwner)
    return `restore ${files} from a copy; this is an owner: remove nothing, and keep a copy of the whole home`
  return `restore ${files} from a copy; without one, move the home away and join with a new invite: nfltr mesh invite --replace NAME, on the owner`
}

function termOf(membership: Membership): Check {
  const until = instant(membership.expiresAtMs)
  const message = `${membership.name}, roles ${membership.roles.join(', ')}, until ${until}`
  if (isWithin(membership, Date.now())) return { name: 'mesh', ok: true, message }
  return { name: 'mesh', ok: false, message: `the membership ended ${until}`, fix: 'join again with a new invite' }
}

async function links(context: Context, home: Home): Promise<readonly Check[]> {
  if ((await home.mesh.loadMembership()) === undefined) {
    return [{ name: 'links', ok: true, message: 'no mesh, so nobody to reach' }]
  }
  const { others, online, lan } = await lookAround(context, home)
  const message = `${online.length} of ${others.length} other members answered${online.length === 0 ? '' : `: ${online.join(', ')}`}`
  if (others.length === 0 || online.length > 0) return [{ name: 'links', ok: true, message }, localNetwork(lan)]
  return [
    {
      name: 'links',
      ok: false,
      message,
      fix: 'start a node or hub on another machine, or check the network and the firewall between them',
    },
    localNetwork(lan),
  ]
}

/** Never wrong by itself: members at addresses that are known are reached all the same. */
function localNetwork({ state, interfaces, reason }: LanStatus): Check {
  const because = reason === undefined ? '' : ` (${reason})`
  const message = {
    on: `members on this network are found by multicast DNS on ${interfaces.join(', ')}${because}`,
    off: 'members on this network are not looked for: the setting lan is false',
    unavailable: `no multicast DNS, so members on this network are found only at addresses that are known${because}`,
  }[state]
  return { name: 'lan', ok: true, message }
}
