import { expect, test } from 'vitest'
import { Pipe } from './pipe.ts'
import { World } from './world.ts'

test('what was held back arrives in the order in which it was sent, whatever else arrives or opens meanwhile', async () => {
  const world = new World(1)
  let isClogged = true
  const arrived: number[] = []
  const delays = { baseMs: 100, jitterMs: 0 }
  const pipe = new Pipe({ world, random: world.random('pipe'), delays, isClogged: () => isClogged })
  const send = (no: number): void => pipe.send(() => arrived.push(no))

  send(1)
  send(2)
  // Another link is let out while this one is still clogged, and something arrives just then.
  world.after(150, () => pipe.unclog())
  world.after(60, () => send(3))
  world.after(400, () => {
    send(4)
    isClogged = false
    pipe.unclog()
  })
  world.after(420, () => send(5))
  await world.run({ untilMs: 2_000 })

  expect(arrived).toEqual([1, 2, 3, 4, 5])
})
