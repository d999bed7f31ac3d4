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
    const { message, cause } =
      thrown instanceof NfltrError ? thrown : { message: `${flag}: ${file} could not be read.`, cause: thrown }
    throw new NfltrError('invalid_argument', message, { cause, details: { argument: flag } })
  }
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
      throw new NfltrError('invalid_argument', `${name} is longer than ${limits.briefMaxBytes} bytes.`)
    }
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch (cause) {
    throw new NfltrError('invalid_argument', `${name} is not valid UTF-8.`, { cause })
  }
}
