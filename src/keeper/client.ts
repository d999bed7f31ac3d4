import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import type { ExitProof } from '../core/journal.ts'
import { limits } from '../core/limits.ts'
import { controlGroupExists } from '../platform/control-group.ts'
import { endTree } from '../platform/end-tree.ts'
import { addKnown, processTree } from '../platform/exit-proof.ts'
import { checkPrivateFolder, diskErrorOr, ensurePrivateFolder, errorCode, syncFolder } from '../platform/files.ts'
import { bootId, isAlive } from '../platform/process-table.ts'
import { shortRunDir, socketPathIn } from '../platform/short-run-dir.ts'
import type { Clock } from '../ports/clock.ts'
import type { FoundAttempt, Keeper, KeeperLaunch, Keepers } from '../ports/keepers.ts'
import { type AdoptedKeeper, adoptKeeper, keeperName } from './adopted-keeper.ts'
import {
  attemptFolder,
  declareVoid,
  exists,
  type JournalHeader,
  listAttempts,
  readHeader,
  removeAttempt,
  type Survey,
  surveyJournal,
} from './attempt-folder.ts'
import { startKeeper } from './start-keeper.ts'

export interface KeepersOptions {
  /** `node/attempts` of the home. Made where it is missing. */
  readonly attemptsDir: string
  /** `run` of the home; sockets go elsewhere where its path is too long for one. */
  readonly runDir: string
  readonly clock: Clock
}

/** Keepers of this machine. One process of a home uses this at a time: the node, which holds the store. */
export function createKeepers(options: KeepersOptions): Keepers {
  const { attemptsDir, runDir, clock } = options
  /** Launches of this very process that are on their way: a look around must not take them for abandoned ones. */
  const launching = new Map<string, Promise<unknown>>()

  async function launch(wanted: KeeperLaunch): Promise<Keeper> {
    const folder = attemptFolder(attemptsDir, wanted.attemptId)
    const socketPath = await newSocketPath(runDir)
    await claim(attemptsDir, folder)
    try {
      await startKeeper({ ...wanted, folder, socketPath })
    } catch (error) {
      await declareVoid(folder).catch(() => undefined)
      throw error
    }
    const keeper = adoptKeeper({ attemptId: wanted.attemptId, folder, header: await readHeader(folder) }, clock)
    await keeper.connected()
    return keeper
  }

  async function adopt(attemptId: string): Promise<AdoptedKeeper> {
    const folder = attemptFolder(attemptsDir, attemptId)
    await launching.get(attemptId)?.catch(() => undefined)
    if (!(await exists(folder))) throw notFound(attemptId)
    await declareVoid(folder)
    return adoptKeeper({ attemptId, folder, header: await readHeader(folder) }, clock)
  }

  async function find(options?: { readonly ended: ReadonlySet<string> }): Promise<readonly FoundAttempt[]> {
    await Promise.allSettled(launching.values())
    const found: FoundAttempt[] = []
    for (const attemptId of await listAttempts(attemptsDir)) {
      if (options?.ended.has(attemptId) === true) {
        found.push({ attemptId, state: 'ended' })
        continue
      }
      const folder = join(attemptsDir, attemptId)
      await declareVoid(folder)
      found.push(stateOf(attemptId, await surveyAtRest(folder)))
    }
    return found
  }

  async function sweep(attemptId: string): Promise<ExitProof> {
    const folder = attemptFolder(attemptsDir, attemptId)
    await launching.get(attemptId)?.catch(() => undefined)
    if (await exists(folder)) await declareVoid(folder)
    const survey = await surveyAtRest(folder)
    const proofOfKeeper =
      survey.type === 'written' && isLive(survey) ? await stopLive(await adopt(attemptId)) : undefined
    if (proofOfKeeper !== undefined) return proofOfKeeper
    const tree = treeOf(attemptId, survey)
    const proof = await endTree(tree, { graceMs: limits.killGraceMs, clock })
    if (survey.type === 'written') await removeSocket(survey.header)
    return proof
  }

  async function remove(attemptId: string): Promise<void> {
    const folder = attemptFolder(attemptsDir, attemptId)
    const survey = await surveyAtRest(folder)
    if (survey.type === 'written' && isLive(survey)) {
      throw new NfltrError('stopping', `${attemptId} was not removed: its keeper runs.`, { hint: 'Stop it first.' })
    }
    if (survey.type === 'written') await removeSocket(survey.header)
    await removeAttempt(folder)
  }

  return {
    async launch(wanted) {
      const started = launch(wanted)
      // A second launch of the same id fails at its claim; the first one stays the one to wait for.
      if (!launching.has(wanted.attemptId)) launching.set(wanted.attemptId, started)
      try {
        return await started
      } finally {
        if (launching.get(wanted.attemptId) === started) launching.delete(wanted.attemptId)
      }
    },
    find,
    adopt,
    sweep,
    remove,
  }
}

async function newSocketPath(runDir: string): Promise<string> {
  const name = `k-${randomBytes(6).toString('hex')}.sock`
  try {
    return await socketPathIn(await shortRunDir(runDir), name)
  } catch (error) {
    throw diskErrorOr(error, runDir)
  }
}

/** Creates the attempt's folder, durably; of any number of claims exactly one succeeds, for ever (rule 20). */
async function claim(attemptsDir: string, folder: string): Promise<void> {
  try {
    await ensurePrivateFolder(attemptsDir)
    await mkdir(folder, { mode: 0o700 })
    await syncFolder(attemptsDir)
  } catch (error) {
    if (errorCode(error) === 'EEXIST') {
      throw new NfltrError('already_exists', `The attempt ${basename(folder)} was claimed before.`, { cause: error })
    }
    throw diskErrorOr(error, folder)
  }
}

type Written = Survey & { readonly type: 'written' }

/** Surveys a journal; where its keeper ended meanwhile, once more, so that an end is not missed by a hair. */
async function surveyAtRest(folder: string): Promise<Survey> {
  const before = await surveyJournal(folder)
  if (before.type !== 'written' || before.exit !== undefined || isLive(before)) return before
  return surveyJournal(folder)
}

/** Its exit record is the keeper's last act: with it, the process is done even where it still shows for a moment. */
function isLive(survey: Written): boolean {
  return survey.exit === undefined && survey.header !== undefined && isAlive(keeperName(survey.header))
}

function stateOf(attemptId: string, survey: Survey): FoundAttempt {
  if (survey.type !== 'written') return { attemptId, state: 'never_launched' }
  const damage = survey.damagedAtOffset === undefined ? {} : { damagedAtOffset: survey.damagedAtOffset }
  if (survey.exit !== undefined) return { attemptId, state: 'ended', ...damage }
  if (isLive(survey)) return { attemptId, state: 'live', ...damage }
  const mayHaveLaunched = survey.launching !== undefined || survey.damagedAtOffset !== undefined
  return { attemptId, state: mayHaveLaunched ? 'gone' : 'never_launched', ...damage }
}

/** Has a living keeper end its tree. `undefined` where the keeper was gone before it told the end. */
async function stopLive(keeper: AdoptedKeeper): Promise<ExitProof | undefined> {
  await using held = keeper
  try {
    await held.stop({ graceMs: limits.killGraceMs })
  } catch (error) {
    // It may have ended by itself meanwhile, in good order: its records tell.
    if (!isKeeperGone(error)) throw error
  }
  try {
    for await (const record of held.records({ fromOffset: 0, signal: AbortSignal.any([]) })) {
      if (record.type === 'exit') return record.proof
    }
  } catch (error) {
    if (!isKeeperGone(error)) throw error
  }
  return undefined
}

function isKeeperGone(error: unknown): boolean {
  return error instanceof NfltrError && error.code === 'keeper_gone'
}

/** What the journal names as the attempt's, where it was written since this machine started. */
function treeOf(attemptId: string, survey: Survey): ReturnType<typeof processTree> {
  const isOfThisBoot = survey.type === 'written' && survey.header?.bootId === bootId()
  const group = isOfThisBoot ? survey.launching?.cgroup : undefined
  const tree = processTree(attemptId, {
    group: group !== undefined && controlGroupExists(group) ? group : undefined,
    trustsSessions: false,
  })
  if (isOfThisBoot && survey.launched !== undefined) addKnown(tree, survey.launched)
  return tree
}

/** Only a socket of ours, in a folder of ours: the path comes from a file. */
async function removeSocket(header: JournalHeader | undefined): Promise<void> {
  if (header === undefined || !/^k-[0-9a-f]+\.sock$/.test(basename(header.socketPath))) return
  try {
    await checkPrivateFolder(dirname(header.socketPath))
    await rm(header.socketPath, { force: true })
  } catch {
    // No such folder, or not ours: then there is nothing of ours in it.
  }
}

function notFound(attemptId: string): NfltrError {
  return new NfltrError('not_found', `There was no attempt ${attemptId} on this machine.`)
}
