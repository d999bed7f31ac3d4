import { reads, type Tool } from './tool.ts'

export const listNodes: Tool = {
  name: 'list_nodes',
  title: 'List machines',
  description:
    'Lists the machines of the mesh that offer slots: state, labels, capabilities, offered folders, free slots and what their owners allow. ' +
    'Machines that are away are listed too. Links that were quiet are probed first.',
  annotations: reads,
}
