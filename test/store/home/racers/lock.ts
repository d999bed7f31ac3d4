import { readFileSync, writeFileSync } from 'node:fs'
import process from 'node:process'
import { setImmediate as turn } from 'node:timers/promises'
import { NfltrError } from '../../../../src/core/errors.ts'
import { openHome } from '../../../../src/store/home/home.ts'

/** Adds to a counter, a number of times, each under the lock; or holds the lock until it is killed. */
const [home = '', counter = '', times = ''] = process.argv.slice(2)
const { keys } = openHome({ home, env: {} })

if (times === 'forever') {
  await keys.lock('machine')
  process.stdout.write('held\n')
  setInterval(() => undefined, 60_000)
} else {
  for (let done = 0; done < Number(times); ) {
    try {
      const lock = await keys.lock('machine')
      const count = Number(readFileSync(counter, 'utf8'))
      await turn()
      writeFileSync(counter, String(count + 1))
      await lock.release()
      done++
    } catch (error) {
      if (!(error instanceof NfltrError) || error.code !== 'key_held') throw error
      await turn()
    }
  }
}
