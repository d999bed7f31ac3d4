import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import { createFileExclusively, ensurePrivateFolder, readPrivateFile } from '../../platform/files.ts'
import type { HomePaths, KeyFiles, KeyName } from '../../ports/home.ts'
import { holderOf, type LockPlace, takeLock } from './holder-lock.ts'
import { folderName } from './paths.ts'

/** Keys as files `keys/<name>.key`, mode 0600, never overwritten; beside each, who holds it. */
export function keyFiles(paths: HomePaths): KeyFiles {
  const fileOf = (name: KeyName): string => join(paths.keys, `${folderName(name)}.key`)
  const lockOf = (name: KeyName): LockPlace => ({ folder: paths.keys, name: `${folderName(name)}.lock` })
  return {
    load: async (name) => {
      const bytes = await readPrivateFile(fileOf(name))
      return bytes === undefined ? undefined : new Uint8Array(bytes)
    },
    create: async (name, bytes) => {
      await ensurePrivateFolder(paths.keys)
      try {
        await createFileExclusively(fileOf(name), bytes)
      } catch (error) {
        if (!(error instanceof NfltrError) || error.code !== 'already_exists') throw error
        throw new NfltrError('already_exists', `${fileOf(name)} is there already; a key is never overwritten.`)
      }
    },
    lock: (name) => takeLock(lockOf(name), `The ${name} key of this home`),
    holder: (name) => holderOf(lockOf(name)),
  }
}
