/** Opens the store of a folder in a later format, and is killed by signal 9 at the Nth record that it changes. */
import process from 'node:process'
import { openLevelStore } from '../../../src/store/level-store.ts'
import { moveAndSign } from './made-up.ts'

const [dir = '', diesAt = ''] = process.argv.slice(2)
let changes = 0
await openLevelStore(dir, {
  migrations: [
    {
      what: moveAndSign.what,
      change: (entry) => {
        changes += 1
        if (changes === Number(diesAt)) process.kill(process.pid, 'SIGKILL')
        return moveAndSign.change(entry)
      },
    },
  ],
})
