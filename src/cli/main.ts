import { CommanderError } from 'commander'
import { toNfltrError } from '../control/error-document.ts'
import { NfltrError } from '../core/errors.ts'
import { diskErrorOr } from '../platform/files.ts'
import { compose } from './compose.ts'
import { exitCodeOf, terminalIo } from './io.ts'
import { Output } from './output.ts'
import { buildProgram, usageError } from './program.ts'

/** The command line: arguments in, exit code out. */
const args = process.argv.slice(2)
const output = new Output(process.stdout)
const io = terminalIo({ isJson: args.includes('--json'), output })
try {
  if (process.platform === 'win32') throw onWindows()
  await buildProgram(compose({ io, env: process.env }), (text) => output.write(text)).parseAsync(args, { from: 'user' })
} catch (thrown) {
  const isUsage = thrown instanceof CommanderError
  const error = isUsage ? usageError(thrown, { isJson: io.isJson }) : toNfltrError(diskErrorOr(thrown, pathOf(thrown)))
  if (error !== undefined) io.fail(error)
  if (isUsage) process.exitCode = thrown.exitCode === 0 ? 0 : 2
  else if (error !== undefined) process.exitCode = exitCodeOf(error)
}

/** Which file the system refused, as its error names it. */
function pathOf(thrown: unknown): string {
  const path = thrown instanceof Error && 'path' in thrown ? thrown.path : undefined
  return typeof path === 'string' ? path : 'A file'
}

function onWindows(): NfltrError {
  return new NfltrError('unsupported_platform', 'nfltr does not run on Windows itself.', {
    hint: 'Install it inside WSL2 and run it there: agents are kept and ended in ways that only Linux and macOS have.',
  })
}
