import { lstat, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import type { JournalBody, JournalRecord } from '../core/journal.ts'
import { createFileExclusively, errorCode, syncFolder } from '../platform/files.ts'
import { openJournal } from './journal-reader.ts'

/** What an attempt's folder says about it. */
export type Survey =
  /** No journal: its keeper has not come so far, or never will. */
  | { readonly type: 'unwritten' }
  /** Declared void: no keeper can ever launch in it. */
  | { readonly type: 'void' }
  | {
      readonly type: 'written'
      readonly header: JournalHeader | undefined
      readonly launching: (JournalRecord & { readonly type: 'launching' }) | undefined
      readonly launched: (JournalRecord & { readonly type: 'launched' }) | undefined
      readonly exit: (JournalRecord & { readonly type: 'exit' }) | undefined
      readonly damagedAtOffset: number | undefined
    }

export type JournalHeader = JournalBody & { readonly type: 'header' }

const voidText = 'void\n'

/** An attempt's id becomes a folder's name, so it is held to what cannot leave the folder above. */
export function attemptFolder(attemptsDir: string, attemptId: string): string {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_-]{0,95}$/.test(attemptId)) {
    throw new NfltrError('invalid_argument', `${JSON.stringify(attemptId)} is no id of an attempt.`)
  }
  return join(attemptsDir, attemptId)
}

export function journalPath(folder: string): string {
  return join(folder, 'journal')
}

export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false
    throw error
  }
}

/** Ids of all attempts with a folder, in order. Finishes removals that were interrupted on the way. */
export async function listAttempts(attemptsDir: string): Promise<readonly string[]> {
  const entries = await readdir(attemptsDir, { withFileTypes: true }).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return []
    throw error
  })
  for (const entry of entries) {
    if (entry.name.startsWith(removedPrefix)) await rm(join(attemptsDir, entry.name), { recursive: true, force: true })
  }
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map((entry) => entry.name)
    .sort()
}

const removedPrefix = '.removed-'

/** Removes a folder in one step as far as anyone can see: a half-removed attempt would look like one never launched. */
export async function removeAttempt(folder: string): Promise<void> {
  const removed = join(folder, '..', `${removedPrefix}${basename(folder)}`)
  await rm(removed, { recursive: true, force: true })
  await rename(folder, removed).catch((error: unknown) => {
    if (errorCode(error) !== 'ENOENT') throw error
  })
  await syncFolder(join(folder, '..'))
  await rm(removed, { recursive: true, force: true })
}

/**
 * Makes sure that no keeper can launch in this folder any more, unless one has got as far as its journal: a keeper
 * writes its journal exclusively before it launches anything, so a void one in its place stops it.
 */
export async function declareVoid(folder: string): Promise<void> {
  if (await exists(journalPath(folder))) return
  await createFileExclusively(journalPath(folder), voidText).catch((error: unknown) => {
    if (!(error instanceof NfltrError) || error.code !== 'already_exists') throw error
  })
}

/** Reads the whole journal for what it says about the attempt's state. */
export async function surveyJournal(folder: string): Promise<Survey> {
  const reader = await openJournal(journalPath(folder), 0).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  })
  if (reader === undefined) return { type: 'unwritten' }
  const found: { -readonly [T in JournalRecord['type']]?: JournalRecord } = {}
  let damagedAtOffset: number | undefined
  try {
    for await (const record of reader.readRest()) found[record.type] = record
  } catch (error) {
    if (!(error instanceof NfltrError) || error.code !== 'journal_damaged') throw error
    damagedAtOffset = reader.offset()
  } finally {
    await reader.close()
  }
  if (found.header === undefined && (await isVoid(folder))) return { type: 'void' }
  return {
    type: 'written',
    header: found.header?.type === 'header' ? found.header : undefined,
    launching: found.launching?.type === 'launching' ? found.launching : undefined,
    launched: found.launched?.type === 'launched' ? found.launched : undefined,
    exit: found.exit?.type === 'exit' ? found.exit : undefined,
    // A journal is born with its header: one without it is damaged, however it ends.
    damagedAtOffset: found.header === undefined ? 0 : damagedAtOffset,
  }
}

/** The first record alone, for those who only need to reach the keeper. */
export async function readHeader(folder: string): Promise<JournalHeader | undefined> {
  const reader = await openJournal(journalPath(folder), 0).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  })
  if (reader === undefined) return undefined
  try {
    for await (const record of reader.readRest()) return record.type === 'header' ? record : undefined
  } catch (error) {
    if (!(error instanceof NfltrError)) throw error
  } finally {
    await reader.close()
  }
  return undefined
}

async function isVoid(folder: string): Promise<boolean> {
  const path = journalPath(folder)
  return (await stat(path)).size === voidText.length && (await readFile(path, 'utf8')) === voidText
}
