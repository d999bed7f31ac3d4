import { createInterface } from 'node:readline/promises'
import { errorDocument } from '../control/error-document.ts'
import { errorCodes, type NfltrError } from '../core/errors.ts'
import { readText } from './input.ts'
import { Output } from './output.ts'
import { printable } from './printable.ts'

/** What a command may do with the terminal: answers go to stdout, everything else to stderr. */
export interface CliIo {
  readonly isJson: boolean
  /** Whether a person sits there and can be asked. */
  readonly isInteractive: boolean
  /** One answer: the document with `--json`, the text for people without. */
  answer(document: object, text: string): void
  /** One line of a stream: the document with `--json`, the text without (none: nothing is said to people). */
  event(document: { readonly event: string; readonly [key: string]: unknown }, text?: string): void
  /** A remark for people; silent with `--json`. */
  note(text: string): void
  /** What somebody has to hear though the command goes on: on stderr, also with `--json`. */
  warn(text: string): void
  /** A failure: on stderr for people, and with `--json` as the one document on stdout, or as the last line of a stream. */
  fail(error: NfltrError): void
  /** Asks a person. Only where `isInteractive`. `isSecret` keeps what is typed off the screen. */
  ask(question: string, options?: { readonly isSecret?: boolean }): Promise<string>
  /** All of standard input. @throws {NfltrError} `invalid_argument` when it is too long or not valid UTF-8 */
  readInput(): Promise<string>
  /** Resolves once everything answered so far has left this process; where it cannot, this process ends. */
  flushed(): Promise<void>
}

export function terminalIo(options: { readonly isJson: boolean; readonly output?: Output }): CliIo {
  const { stdin, stderr } = process
  const { isJson, output = new Output(process.stdout) } = options
  // A remark that nobody can read any more changes nothing.
  stderr.on('error', () => undefined)
  const isInteractive = stdin.isTTY === true && stderr.isTTY === true
  const writeLine = (text: string): void => output.write(`${text}\n`)
  // Whether this command speaks in lines: then its failure is one of them.
  let isStream = false
  return {
    isJson,
    isInteractive,
    answer: (document, text) =>
      writeLine(isJson ? JSON.stringify({ schema: 1, ...document }, undefined, 2) : printable(text)),
    event: (document, text) => {
      isStream = true
      if (isJson) writeLine(JSON.stringify(document))
      else if (text !== undefined) writeLine(printable(text))
    },
    note: (text) => {
      if (!isJson) stderr.write(`${printable(text)}\n`)
    },
    warn: (text) => void stderr.write(`${printable(`nfltr: ${text}`)}\n`),
    fail: (error) => {
      stderr.write(`${printable(`nfltr: ${error.message}`)}\n`)
      if (error.hint !== undefined) stderr.write(`${printable(`  ${error.hint}`)}\n`)
      output.failing(exitCodeOf(error))
      if (isJson) writeLine(JSON.stringify({ ...(isStream ? { event: 'error' } : {}), ...errorDocument(error) }))
    },
    ask: async (question, asked = {}) => {
      const reader = createInterface({
        input: stdin,
        output: asked.isSecret === true ? undefined : stderr,
        terminal: true,
      })
      try {
        if (asked.isSecret === true) stderr.write(question)
        return (await reader.question(asked.isSecret === true ? '' : question)).trim()
      } finally {
        reader.close()
        if (asked.isSecret === true) stderr.write('\n')
      }
    },
    readInput: () => readText(stdin, 'Standard input'),
    flushed: () => output.flushed(),
  }
}

export function exitCodeOf(error: NfltrError): number {
  return errorCodes[error.code].exit
}
