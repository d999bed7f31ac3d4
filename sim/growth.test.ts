import { expect, test } from 'vitest'
import { type GrowthReading, grow } from './growth.ts'

test('much work is asked for and read in several meshes, each task once', async () => {
  const readings: GrowthReading[] = []
  const plan = { meshes: 2, nodes: 6, tasks: 40, inFlight: 10 }
  const { tasks, wrong } = await grow(plan, (reading) => readings.push(reading))

  expect(wrong).toEqual([])
  expect(tasks).toBe(40)
  expect(readings.map((reading) => reading.tasks)).toEqual(Array.from({ length: 20 }, (_, index) => 2 * index + 2))
})
