import { reads, type Tool } from './tool.ts'

export const getResult: Tool = {
  name: 'get_result',
  title: 'Read a result again',
  description:
    "Reads an agent's result, or any entry by its delivery_id, whole and in pages, as often as wanted; it never counts as a delivery. " +
    'For a running turn it returns the text so far, with entry.outcome absent.',
  annotations: reads,
}
