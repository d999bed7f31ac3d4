import { readdir, readFile } from 'node:fs/promises'
import { NfltrError } from '../../core/errors.ts'
import { decodeRecord, encodeRecord } from '../../core/record-json.ts'
import { errorCode, readPrivateFile, writeFileAtomically } from '../../platform/files.ts'

/** The kinds of field that the records of a home have; `?` marks those that may be absent. */
export type Shape = Readonly<Record<string, FieldKind | `${FieldKind}?`>>
type FieldKind = 'string' | 'number' | 'bytes' | 'list' | 'boolean'

/** A record of ours on disk: one JSON document, checked against its shape when it is read. */
export interface RecordKind {
  readonly name: string
  readonly shape: Shape
}

/**
 * Reads a record that only this user may read or write.
 *
 * @returns `undefined` where there is no file
 * @throws {NfltrError} `store_damaged` where it does not hold what we write; `insecure_permissions`
 */
export async function readRecord<T>(path: string, kind: RecordKind): Promise<T | undefined> {
  const bytes = await readPrivateFile(path)
  if (bytes === undefined) return undefined
  let value: unknown
  try {
    value = decodeRecord(bytes)
  } catch (cause) {
    throw damaged(path, kind, cause)
  }
  if (!fits(value, kind.shape)) throw damaged(path, kind)
  return value as T
}

/** Replaces a record as a whole, durable when it resolves. */
export function writeRecord(path: string, value: object): Promise<void> {
  return writeFileAtomically(path, encodeRecord(value))
}

/** Names in a folder, sorted, without those of files that are still being written; none where there is no folder. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => !name.startsWith('.')).sort()
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return []
    throw error
  }
}

/** The text of a file that may be readable by others, or `undefined` where there is none. */
export async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function fits(value: unknown, shape: Shape): boolean {
  if (typeof value !== 'object' || value === null) return false
  const fields = new Map<string, unknown>(Object.entries(value))
  return Object.entries(shape).every(([name, kind]) => {
    const field = fields.get(name)
    if (field === undefined) return kind.endsWith('?')
    switch (kind.replace('?', '')) {
      case 'bytes':
        return field instanceof Uint8Array
      case 'boolean':
        return typeof field === 'boolean'
      case 'list':
        return Array.isArray(field)
      case 'number':
        return typeof field === 'number' && Number.isSafeInteger(field) && field >= 0
      default:
        return typeof field === 'string'
    }
  })
}

export function damaged(path: string, kind: { readonly name: string }, cause?: unknown): NfltrError {
  return new NfltrError('store_damaged', `${path} did not hold ${kind.name}.`, {
    hint: 'Restore it from a copy. Without one remove nothing: keep a copy of the whole home, and see what nfltr doctor says.',
    cause,
  })
}
