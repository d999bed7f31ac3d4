import { open } from 'node:fs/promises'
import { NfltrError } from '../core/errors.ts'

/**
 * A secret from a file that only its owner can read.
 *
 * @throws {NfltrError} `invalid_argument` when it cannot be read, `insecure_permissions` when others can read it
 */
export async function readSecretFile(file: string): Promise<string> {
  const handle = await open(file, 'r').catch((cause: unknown) => {
    throw new NfltrError('invalid_argument', `${file} could not be read.`, { cause })
  })
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw new NfltrError('invalid_argument', `${file} is no file.`)
    if ((stat.mode & 0o077) !== 0) {
      throw new NfltrError('insecure_permissions', `${file} can be read by other users.`, {
        hint: `Run: chmod 600 ${file}`,
      })
    }
    if (stat.size > 64 * 1024) throw new NfltrError('invalid_argument', `${file} is too large for a secret.`)
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}
