/**
 * The service over a real store, in a process that may be killed at any moment: requests come and answers go as messages to
 * the parent. The only argument is the store's folder.
 */
import process from 'node:process'
import { openLevelStore } from '../../src/store/level-store.ts'
import { type Request, Service } from './service.ts'

const [, , dir = ''] = process.argv
const store = await openLevelStore(dir)
const service = await Service.over(store)

process.on('message', ({ id, request }: { readonly id: number; readonly request: Request }) => {
  service.call(request).then(
    (answer) => process.send?.({ id, answer }),
    (error: unknown) => {
      process.stderr.write(`${String(error)}\n`)
      process.exit(1)
    },
  )
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
