import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { MemoryDisk } from '../../src/store/memory-disk.ts'
import { type MemoryStore, openMemoryStore } from '../../src/store/memory-store.ts'
import type { SeededRandom } from '../random.ts'
import { type Answer, type Request, Service } from './service.ts'

/** A service that may die. */
export interface Target {
  /** @throws {Gone} when the service died before it answered: what became of the request is not known */
  call(request: Request): Promise<Answer>
  /** Kills the service and starts it again on what its disk holds. */
  crash(): Promise<void>
  close(): Promise<void>
}

export class Gone extends Error {}

/** Calls under way: all of them are lost when the service dies. */
class Calls {
  readonly #lost = new Set<(error: Gone) => void>()

  /** The work's answer, unless the service dies first. */
  follow(work: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#lost.add(reject)
      work.then(resolve, reject).finally(() => this.#lost.delete(reject))
    })
  }

  loseAll(): void {
    for (const reject of this.#lost) reject(new Gone('the service died'))
    this.#lost.clear()
  }
}

/** Over the in-memory store, whose syncs take a moment, and whose crashes lose any part of what was not synced. */
export async function memoryTarget(random: SeededRandom): Promise<Target> {
  const calls = new Calls()
  let store: MemoryStore
  let service: Service
  const start = async (disk: MemoryDisk): Promise<void> => {
    store = await openMemoryStore({ disk, sync: () => new Promise((resolve) => setImmediate(resolve)) })
    service = await Service.over(store)
  }
  let up = start(new MemoryDisk())
  await up
  return {
    call: (request) => calls.follow(up.then(() => service.call(request))),
    crash: async () => {
      await up
      const disk = store.crash({ keepUnsynced: random.int(0, store.unsynced) })
      calls.loseAll()
      up = start(disk)
      await up
    },
    close: async () => {
      await store.close()
    },
  }
}

/** Over a real store, in a process of its own that is killed with signal 9. */
export async function levelTarget(dir: string): Promise<Target> {
  const calls = new Calls()
  const waiting = new Map<number, (answer: Answer) => void>()
  let up = startProcess(dir, waiting)
  await up
  let id = 0
  const send = async (request: Request): Promise<Answer> => {
    const child = await up
    id += 1
    const own = id
    return await new Promise<Answer>((resolve) => {
      waiting.set(own, resolve)
      // A message that cannot be sent any more is lost with the process.
      child.send({ id: own, request }, () => undefined)
    })
  }
  return {
    call: (request) => calls.follow(send(request)),
    crash: async () => {
      const old = await up
      const isOver = ended(old)
      up = isOver.then(() => {
        waiting.clear()
        calls.loseAll()
        return startProcess(dir, waiting)
      })
      await up
    },
    close: async () => ended(await up),
  }
}

function startProcess(dir: string, waiting: Map<number, (answer: Answer) => void>): Promise<ChildProcess> {
  return new Promise((resolve, reject) => {
    const child = fork(join(import.meta.dirname, 'level-process.ts'), [dir])
    child.once('exit', (code) => reject(new Error(`the service ended with ${code} before it was ready`)))
    child.on('error', () => undefined)
    child.on('message', (said: { readonly ready?: true; readonly id?: number; readonly answer?: Answer }) => {
      if (said.ready === true) resolve(child)
      if (said.id === undefined) return
      waiting.get(said.id)?.(said.answer)
      waiting.delete(said.id)
    })
  })
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.kill('SIGKILL')
  })
}
