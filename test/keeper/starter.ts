import process from 'node:process'
import { keepersAt } from './support.ts'

/**
 * Starts one keeper for the launch given as JSON, tells that it did, and stays: the process that a test kills with -9
 * to see that keeper and command do not care.
 */
const [home = '', launch = ''] = process.argv.slice(2)
await using keeper = await keepersAt(home).launch(JSON.parse(launch))
process.stdout.write(`started ${keeper.attemptId}\n`)
// Held open by the keeper's connection, until the test ends it.
for await (const record of keeper.records({ fromOffset: 0, signal: new AbortController().signal })) {
  if (record.type === 'exit') process.stdout.write('ended\n')
}
