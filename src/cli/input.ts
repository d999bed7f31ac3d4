import { createReadStream } from 'node:fs'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { CliIo } from './io.ts'

/**
 * The text of a file named on the command line, `-` for standard input.
 *
 * @throws {NfltrError} `invalid_argument` when the file cannot be read, is too long or is not valid UTF-8
 */
export async function readTextArgument(io: CliIo, file: string, flag: string): Promise<string> {
  return file === '-' ? await io.readInput() : await readTextFile(file, flag)
}

/** @throws {NfltrError} `invalid_argument` when the file cannot be read, is too long or is not valid UTF-8 */
export async function readTextFile(file: string, flag: string): Promise<string> {
  try {
    return await readText(createReadStream(file, { end: limits.briefMaxBytes }), `${flag}: ${file}`)
  } catch (thrown) {
    const {
      message,
      cause,
      hint = '',
    } = thrown instanceof NfltrError ? thrown : unreadable(file, { flag, cause: thrown })
    throw new NfltrError('invalid_argument', message, { cause, hint, details: { argument: flag } })
  }
}

function unreadable(file: string, { flag, cause }: { readonly flag: string; readonly cause: unknown }): NfltrError {
  const isThere = (cause as NodeJS.ErrnoException).code !== 'ENOENT'
  return new NfltrError('invalid_argument', `${flag}: ${file} ${isThere ? 'could not be read' : 'is not there'}.`, {
    hint: isThere ? 'Name a file that this user may read.' : 'Name a file that is there.',
    cause,
  })
}

/**
 * Reads a stream to its end, and no further than what the longest text may have: a device never ends.
 *
 * @throws {NfltrError} `invalid_argument` when it is longer, or not valid UTF-8: what is not text would reach an agent altered
 */
export async function readText(stream: AsyncIterable<unknown>, name: string): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream) {
    chunks.push(chunk as Buffer)
    size += (chunk as Buffer).length
    if (size > limits.briefMaxBytes) {
      throw new NfltrError('invalid_argument', `${name} is longer than ${limits.briefMaxBytes} bytes.`, {
        hint: 'Leave the long part in a file of the machine that works on it, and name that file.',
      })
    }
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch (cause) {
    throw new NfltrError('invalid_argument', `${name} is not valid UTF-8.`, {
      cause,
      hint: 'Save the text as UTF-8.',
    })
  }
}
