import { CommanderError } from 'commander'
import { toNfltrError } from '../control/error-document.ts'
import { compose } from './compose.ts'
import { exitCodeOf, terminalIo } from './io.ts'
import { buildProgram, usageError } from './program.ts'

/** The command line: arguments in, exit code out. */
const args = process.argv.slice(2)
const io = terminalIo({ isJson: args.includes('--json') })
try {
  await buildProgram(compose({ io, env: process.env })).parseAsync(args, { from: 'user' })
} catch (thrown) {
  const error = thrown instanceof CommanderError ? usageError(thrown) : toNfltrError(thrown)
  if (error !== undefined) {
    io.fail(error)
    process.exitCode = thrown instanceof CommanderError ? 2 : exitCodeOf(error)
  }
}
