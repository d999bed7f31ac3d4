import { readFile } from 'node:fs/promises'
import { NfltrError } from '../core/errors.ts'
import type { CliIo } from './io.ts'

/**
 * The text of a file named on the command line, `-` for standard input.
 *
 * @throws {NfltrError} `invalid_argument` when the file cannot be read or is not valid UTF-8
 */
export async function readTextArgument(io: CliIo, file: string, flag: string): Promise<string> {
  if (file === '-') return await io.readInput()
  let bytes: Buffer
  try {
    bytes = await readFile(file)
  } catch (cause) {
    throw new NfltrError('invalid_argument', `${flag}: ${file} could not be read.`, {
      cause,
      details: { argument: flag },
    })
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new NfltrError('invalid_argument', `${flag}: ${file} is not valid UTF-8.`, {
      cause,
      details: { argument: flag },
    })
  }
}
