import { open } from 'node:fs/promises'
import { NfltrError } from '../core/errors.ts'

const secretMaxBytes = 64 * 1024

/**
 * A secret from a file that only its owner can read.
 *
 * @param flag the one that names the file
 * @throws {NfltrError} `invalid_argument` when it cannot be read, `insecure_permissions` when others can read it
 */
export async function readSecretFile(file: string, flag: string): Promise<string> {
  const refused = (what: string, hint: string, cause?: unknown): NfltrError =>
    new NfltrError('invalid_argument', `${file} ${what}.`, { hint, cause, details: { argument: flag } })
  const handle = await open(file, 'r').catch((cause: unknown) => {
    throw refused('could not be read', 'Name a file that is there and that this user may read.', cause)
  })
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw refused('is no file', 'Name a file that holds the secret and nothing else.')
    if ((stat.mode & 0o077) !== 0) {
      throw new NfltrError('insecure_permissions', `${file} can be read by other users.`, {
        hint: `Run: chmod 600 ${file}`,
        details: { argument: flag },
      })
    }
    if (stat.size > secretMaxBytes) {
      throw refused('is too large for a secret', 'Name a file that holds the secret and nothing else.')
    }
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}
