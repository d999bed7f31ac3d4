import { expect, test } from 'vitest'
import type { GrowthReading } from './growing-meshes.ts'
import { grow } from './growth.ts'

const plan = { meshes: 2, nodes: 6, tasks: 40, inFlight: 10 }

test('much work is asked for and read in several meshes, each task once', async () => {
  const readings: GrowthReading[] = []
  const { tasks, wrong } = await grow({ ...plan, workers: 1 }, (reading) => readings.push(reading))

  expect(wrong).toEqual([])
  expect(tasks).toBe(40)
  expect(readings.length).toBeGreaterThan(1)
  expect(readings.at(-1)?.tasks).toBe(40)
  for (const [index, reading] of readings.slice(1).entries()) {
    expect(reading.tasks - (readings[index]?.tasks ?? 0)).toBeGreaterThanOrEqual(1)
  }
})

test('what grows does not depend on the number of threads', async () => {
  const [inOne, inTwo] = await Promise.all([1, 2].map((workers) => grow({ ...plan, workers }, () => undefined)))

  expect(inTwo).toEqual(inOne)
})
